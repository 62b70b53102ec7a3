"""Fillers: the words that the generator puts into phrases, and the facts that it knows.

Lists named HELD are never used in training; the held-out set uses only them.
"""

NAMES = (
    "Ana Bruno Carla Daniel Elisa Fabio Gabriela Hugo Irene Joana Karina Lucas Marina Nuno "
    "Olga Paulo Rita Sergio Tiago Ursula Vera Walter Yara Zeca Alice Bob Charles Diana Edward "
    "Fiona George Helen Ivan Jack Kate Liam Mary Noah Oscar Peter Quentin Rose Simon Tom Uma "
    "Victor Wendy Xavier Laura Pedro Luiza Mateus Renata Sofia Rafael Camila Emma James Lucy "
    "Henry Grace Arthur Clara Davi"
).split()
NAMES_HELD = "Teresa Marcos Beatriz Otavio Julia Robert Nina Frank Martha Leo Iris Gustavo".split()

CITIES = [
    "Recife", "Porto", "Lisbon", "Manaus", "London", "Paris", "Berlin", "Madrid", "Rome",
    "Salvador",
    "Natal", "Santos", "Belo Horizonte", "Porto Alegre", "Curitiba", "Fortaleza", "Coimbra",
    "Braga",
    "Faro", "New York", "Chicago", "Boston", "Dublin", "Oslo", "Vienna", "Prague", "Tokyo", "Lima",
    "Quito", "Bogota", "Havana", "Cairo", "Luanda", "Maputo", "Praia", "Dakar", "Delhi", "Seoul",
    "Sydney", "Toronto", "Zurich", "Geneva", "Warsaw", "Athens", "Florence", "Milan", "Leeds",
    "Santiago", "Campinas", "Niteroi", "Olinda", "Setubal", "San Diego", "Rio de Janeiro",
]
CITIES_HELD = ["Vitoria", "Aveiro", "Denver", "Helsinki", "Goiania", "Turin", "Bergen", "Cape Town",
               "Nairobi", "Evora", "Santa Fe", "Lagos"]

JOBS = {
    "en": ["teacher", "doctor", "baker", "farmer", "nurse", "painter", "driver", "cook", "singer",
           "engineer", "writer", "carpenter"],
    "pt": ["professora", "dentista", "motorista", "artista", "jornalista", "pianista", "analista",
           "taxista", "florista", "ciclista", "economista", "recepcionista"],
}
JOBS_HELD = {"en": ["dentist", "sailor", "gardener"], "pt": ["massagista", "desenhista",
"guitarrista"]}

ITEMS = {
    "en": ["rice", "beans", "coffee", "milk", "bread", "sugar", "salt", "tea", "cheese", "butter",
           "apples", "bananas", "oranges", "eggs", "pens", "books", "chairs", "lamps"],
    "pt": ["arroz", "café", "leite", "pão", "sal", "queijo", "manteiga", "feijão", "farinha",
           "maçãs", "bananas", "laranjas", "ovos", "canetas", "livros", "cadeiras", "sapatos",
           "copos"],
}
ITEMS_HELD = {"en": ["plates", "honey", "potatoes"], "pt": ["pratos", "mel", "batatas"]}

# Countable things for the short stories about sums.
COUNTABLE = {
    "en": ["apples", "books", "pens", "coins", "eggs", "oranges", "cards", "stamps"],
    "pt": ["bananas", "canetas", "moedas", "laranjas", "cartas", "pedras", "flores", "bolas"],
}
COUNTABLE_HELD = {"en": ["pears", "shells"], "pt": ["peras", "conchas"]}

# thing: (article, noun, colour, how it is). The article is "" where the noun stands without one.
THINGS = {
    "en": [
        ("the", "sky", "blue", "blue and clear"), ("the", "grass", "green", "green and soft"),
        ("the", "snow", "white", "white and cold"), ("the", "coal", "black", "black and hard"),
        ("the", "sun", "yellow", "yellow and hot"), ("the", "blood", "red", "red and warm"),
        ("the", "milk", "white", "white and fresh"), ("the", "banana", "yellow",
                                                      "yellow and sweet"),
        ("the", "carrot", "orange", "orange and crisp"), ("the", "tomato", "red", "red and round"),
        ("the", "chocolate", "brown", "brown and sweet"), ("the", "cloud", "white",
                                                           "white and light"),
        ("the", "elephant", "grey", "grey and heavy"), ("the", "flamingo", "pink", "pink and tall"),
        ("the", "sea", "blue", "blue and deep"), ("the", "leaf", "green", "green and thin"),
        ("the", "night", "black", "black and quiet"), ("the", "strawberry", "red", "red and small"),
        ("the", "frog", "green", "green and wet"), ("the", "crow", "black", "black and clever"),
    ],
    "pt": [
        ("o", "céu", "azul", "azul e claro"), ("a", "grama", "verde", "verde e macia"),
        ("a", "neve", "branca", "branca e fria"), ("o", "carvão", "preto", "preto e duro"),
        ("o", "sol", "amarelo", "amarelo e quente"), ("o", "sangue", "vermelho",
                                                      "vermelho e morno"),
        ("o", "leite", "branco", "branco e fresco"), ("a", "banana", "amarela", "amarela e doce"),
        ("a", "cenoura", "laranja", "laranja e crocante"), ("o", "tomate", "vermelho",
        "vermelho e redondo"),
        ("o", "chocolate", "marrom", "marrom e doce"), ("a", "nuvem", "branca", "branca e leve"),
        ("o", "elefante", "cinza", "cinza e pesado"), ("o", "flamingo", "rosa", "rosa e alto"),
        ("o", "mar", "azul", "azul e fundo"), ("a", "folha", "verde", "verde e fina"),
        ("a", "noite", "preta", "preta e quieta"), ("o", "morango", "vermelho",
                                                    "vermelho e pequeno"),
        ("o", "sapo", "verde", "verde e molhado"), ("o", "corvo", "preto", "preto e esperto"),
    ],
}
COLOURS = {
    "en": ["blue", "green", "white", "black", "yellow", "red", "orange", "brown", "grey", "pink"],
    "pt": ["azul", "verde", "branco", "preto", "amarelo", "vermelho", "laranja", "marrom", "cinza",
           "rosa"],
}
FEMININE = {"branco": "branca", "preto": "preta", "amarelo": "amarela", "vermelho": "vermelha"}

# when: what the weather is then. "Today" is the README's example.
WEATHER = {
    "en": {"today": "sunny and warm", "tonight": "clear and cool",
           "this morning": "fresh and bright",
           "in winter": "cold and grey", "in summer": "hot and dry",
           "in spring": "mild and pleasant",
           "in autumn": "windy and mild"},
    "pt": {"hoje": "ensolarado e quente", "esta noite": "limpo e fresco",
           "esta manhã": "fresco e claro",
           "no inverno": "frio e cinzento", "no verão": "quente e seco",
           "na primavera": "ameno e agradável", "no outono": "ventoso e ameno"},
}

LISTS = {
    "en": {
        "days of the week": ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday",
                             "Sunday"],
        "months of the year": ["January", "February", "March", "April", "May", "June", "July",
                               "August",
                               "September", "October", "November", "December"],
        "colours of the rainbow": ["red", "orange", "yellow", "green", "blue", "indigo", "violet"],
        "seasons": ["spring", "summer", "autumn", "winter"],
        "planets": ["Mercury", "Venus", "Earth", "Mars", "Jupiter", "Saturn", "Uranus", "Neptune"],
        "vowels": ["a", "e", "i", "o", "u"],
    },
    "pt": {
        "dias da semana": ["segunda-feira", "terça-feira", "quarta-feira", "quinta-feira",
                           "sexta-feira",
                           "sábado", "domingo"],
        "meses do ano": ["janeiro", "fevereiro", "março", "abril", "maio", "junho", "julho",
                         "agosto",
                         "setembro", "outubro", "novembro", "dezembro"],
        "cores do arco-íris": ["vermelho", "laranja", "amarelo", "verde", "azul", "anil",
                               "violeta"],
        "estações do ano": ["primavera", "verão", "outono", "inverno"],
        "planetas": ["Mercúrio", "Vênus", "Terra", "Marte", "Júpiter", "Saturno", "Urano",
                     "Netuno"],
        "vogais": ["a", "e", "i", "o", "u"],
    },
}

OPPOSITES = {
    "en": [("hot", "cold"), ("big", "small"), ("tall", "short"), ("fast", "slow"), ("day", "night"),
           ("open", "closed"), ("new", "old"), ("wet", "dry"), ("light", "dark"), ("rich", "poor"),
           ("happy", "sad"), ("full", "empty"), ("clean", "dirty"), ("early", "late"), ("strong",
           "weak")],
    "pt": [("quente", "frio"), ("grande", "pequeno"), ("alto", "baixo"), ("rápido", "lento"),
           ("dia", "noite"), ("aberto", "fechado"), ("novo", "velho"), ("molhado", "seco"),
           ("claro", "escuro"), ("rico", "pobre"), ("feliz", "triste"), ("cheio", "vazio"),
           ("limpo", "sujo"), ("cedo", "tarde"), ("forte", "fraco")],
}

CAPITALS = {
    "en": [("Brazil", "Brasília"), ("Portugal", "Lisbon"), ("France", "Paris"), ("Spain", "Madrid"),
           ("Italy", "Rome"), ("Germany", "Berlin"), ("Japan", "Tokyo"), ("Egypt", "Cairo"),
           ("Peru", "Lima"), ("Cuba", "Havana"), ("Angola", "Luanda"), ("Mozambique", "Maputo"),
           ("Norway", "Oslo"), ("Ireland", "Dublin"), ("Austria", "Vienna"), ("Greece", "Athens")],
    "pt": [("do Brasil", "Brasília"), ("de Portugal", "Lisboa"), ("da França", "Paris"),
           ("da Espanha", "Madri"), ("da Itália", "Roma"), ("da Alemanha", "Berlim"),
           ("do Japão", "Tóquio"), ("do Egito", "Cairo"), ("do Peru", "Lima"), ("de Cuba",
           "Havana"),
           ("de Angola", "Luanda"), ("de Moçambique", "Maputo"), ("da Noruega", "Oslo"),
           ("da Irlanda", "Dublin"), ("da Áustria", "Viena"), ("da Grécia", "Atenas")],
}

# (English, Portuguese)
TRANSLATIONS = [
    ("dog", "cachorro"), ("cat", "gato"), ("house", "casa"), ("water", "água"), ("bread", "pão"),
    ("sun", "sol"), ("moon", "lua"), ("book", "livro"), ("bird", "pássaro"), ("tree", "árvore"),
    ("flower", "flor"), ("fish", "peixe"), ("sea", "mar"), ("sky", "céu"), ("fire", "fogo"),
    ("stone", "pedra"), ("road", "estrada"), ("door", "porta"), ("window", "janela"), ("friend",
    "amigo"),
    ("milk", "leite"), ("chair", "cadeira"), ("table", "mesa"), ("heart", "coração"),
    ("school", "escola"), ("city", "cidade"), ("river", "rio"), ("rain", "chuva"), ("horse",
    "cavalo"),
    ("apple", "maçã"),
]

NUMBERS = {
    "en": "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
          "fifteen sixteen seventeen eighteen nineteen twenty".split(),
    "pt": "zero um dois três quatro cinco seis sete oito nove dez onze doze treze quatorze quinze "
          "dezesseis dezessete dezoito dezenove vinte".split(),
}

# For tools whose very name must be read from the request: get_NOUN(place).
MEASURES = {
    "en": ["population", "traffic", "sunrise", "sunset", "area", "news", "altitude", "rent",
           "pollution",
           "holidays", "tide", "wind", "snow", "postcode", "museums", "hotels", "trains", "buses"],
    "pt": ["população", "trânsito", "amanhecer", "entardecer", "área", "notícias", "altitude",
           "aluguel", "poluição", "feriados", "maré", "vento", "neve", "cep", "museus", "hotéis",
           "trens", "ônibus"],
}
MEASURES_HELD = {"en": ["humidity", "festivals", "rainfall"], "pt": ["umidade", "festivais",
"preços"]}
PLACE_KEYS = ["city", "place", "location", "town"]

SKIES = {"en": ["sunny", "cloudy", "rainy", "windy", "foggy", "clear"],
         "pt": ["ensolarado", "nublado", "chuvoso", "limpo", "encoberto", "claro"]}

SYSTEMS = {
    "en": ["You are a helpful assistant.", "You are Mirim, a small assistant.", "Answer briefly.",
           "Be kind and brief.", "You help people with small questions.", "Answer in one sentence.",
           "You are a careful assistant who gives short answers."],
    "pt": ["Você é um assistente prestativo.", "Você é Mirim, um pequeno assistente.",
           "Responda em poucas palavras.", "Seja gentil e breve.",
           "Você ajuda com perguntas pequenas.",
           "Responda em uma frase.", "Você é um assistente cuidadoso e dá respostas curtas."],
}
SYSTEMS_HELD = {"en": ["You are a friendly helper.", "Keep your answers short."],
                "pt": ["Você é um ajudante amigo.", "Dê respostas curtas."]}

SYLLABLES = (
    "ba be bi bo ca co da de di do fa fe ga go ja jo la le li lo ma me mi mo na ne ni no pa "
    "pe pi ra re ri ro sa se si so ta te ti to va ve vi za zo lar mar dan bel kor ton win "
    "ster ham ley fer ral nor"
).split()
