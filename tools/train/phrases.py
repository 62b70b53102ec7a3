"""Phrasings: PHRASES[task][language] = (for training, held out).

[a|b] is a choice, {x} a filler. The held-out phrasings never occur in training; they share words
with the others, as a person's question would, but not the sentence.
"""

PHRASES = {
    "weather": {
        "en": ([
            "How is the weather {when}?", "What is the weather like {when}?",
            "[Tell me|Describe] the weather {when}.",
            "What is the weather {when}?", "Is the weather good {when}?",
            "How does the weather feel {when}?",
            "Say something about the weather {when}.", "I want to know the weather {when}.",
            "The weather {when}: how is it?", "Weather {when}?",
            "What [sort|type] of weather [is there|is it] {when}?",
            "[Talk about|Describe to me] {when}: how is the weather?",
        ], [
            "Can you describe the weather {when}?", "What kind of weather do we have {when}?",
            "So, how is the weather {when}?", "Please tell me about the weather {when}.",
        ]),
        "pt": ([
            "Como está o tempo {when}?", "Como é o tempo {when}?",
            "[Diga|Descreva] como é o tempo {when}.",
            "Que tempo faz {when}?", "O tempo é bom {when}?", "Fale do tempo {when}.",
            "Quero saber do tempo {when}.", "O tempo {when}: como está?", "Tempo {when}?",
            "Conte como está o tempo {when}.", "Que [tipo|espécie] de tempo temos {when}?",
            "[Me fale|Me diga] do clima {when}.",
        ], [
            "Pode descrever o tempo {when}?", "Então, como está o tempo {when}?",
            "Por favor, fale sobre o tempo {when}.", "Como anda o tempo {when}?",
        ]),
    },
    "colour": {
        "en": ([
            "What colour is {the} {thing}?", "What is the colour of {the} {thing}?",
            "Which colour is {the} {thing}?",
            "Tell me the colour of {the} {thing}.", "{The} {thing} is what colour?",
            "Colour of {the} {thing}?",
            "What color is {the} {thing}?", "Say the colour of {the} {thing}.",
            "I forgot the colour of {the} {thing}.",
            "[Name|Give] the colour of {the} {thing}.", "Which color does {the} {thing} have?",
        ], [
            "Can you tell me what colour {the} {thing} is?",
            "Which colour does {the} {thing} have?",
            "What is {the} {thing}'s colour?", "Do you know the color of {the} {thing}?",
        ]),
        "pt": ([
            "Qual é a cor d{the} {thing}?", "De que cor é {the} {thing}?",
            "Que cor tem {the} {thing}?",
            "Diga a cor d{the} {thing}.", "{The} {thing} é de que cor?", "Cor d{the} {thing}?",
            "Me diga a cor d{the} {thing}.", "Esqueci a cor d{the} {thing}.",
            "Quero saber a cor d{the} {thing}.",
            "[Conte|Fale] a cor d{the} {thing}.", "Que cor é {the} {thing}?",
        ], [
            "Pode me dizer a cor d{the} {thing}?", "Qual a cor d{the} {thing}?",
            "Você sabe de que cor é {the} {thing}?", "Com que cor é {the} {thing}?",
        ]),
    },
    "describe": {
        "en": ([
            "How is {the} {thing}?", "What is {the} {thing} like?", "Describe {the} {thing}.",
            "Talk about {the} {thing}.",
            "Say how {the} {thing} is.", "Give me a description of {the} {thing}.",
            "{The} {thing}: how is it?",
            "What can you say about {the} {thing}?", "Describe to me how {the} {thing} is.",
        ], [
            "Can you describe {the} {thing}?", "Tell me how {the} {thing} is.",
            "Please describe {the} {thing} to me.",
        ]),
        "pt": ([
            "Como é {the} {thing}?", "Descreva {the} {thing}.", "Fale d{the} {thing}.",
            "Diga como é {the} {thing}.",
            "Faça uma descrição d{the} {thing}.", "{The} {thing}: como é?",
            "O que você diz d{the} {thing}?",
            "Me descreva {the} {thing}.", "Conte como {the} {thing} é.",
        ], [
            "Pode descrever {the} {thing}?", "Me diga como é {the} {thing}.",
            "Por favor, descreva {the} {thing}.",
        ]),
    },
    "yesno": {
        "en": ([
            "Is {the} {thing} {colour}?", "{The} {thing} is {colour}, right?",
            "Is it true that {the} {thing} is {colour}?",
            "Would you say that {the} {thing} is {colour}?", "{The} {thing} is {colour}. True?",
            "Is {colour} the colour of {the} {thing}?",
            "[Are you sure|Do you think] that {the} {thing} is {colour}?",
            "Yes or no: {the} {thing} is {colour}.",
        ], [
            "Yes or no: is {the} {thing} {colour}?", "Tell me, is {the} {thing} {colour}?",
            "Is it right that {the} {thing} is {colour}?",
        ]),
        "pt": ([
            "{The} {thing} é {colour}?", "{The} {thing} é {colour}, certo?",
            "É verdade que {the} {thing} é {colour}?",
            "Você diria que {the} {thing} é {colour}?", "{The} {thing} é {colour}. Verdade?",
            "Será que {the} {thing} é {colour}?",
            "[Você acha|Tem certeza de] que {the} {thing} é {colour}?",
            "Responda sim ou não: {the} {thing} é {colour}.",
        ], [
            "Sim ou não: {the} {thing} é {colour}?", "Me diga, {the} {thing} é {colour}?",
            "É certo que {the} {thing} é {colour}?",
        ]),
    },
    "sum": {
        "en": ([
            "What is {a} [+|plus] {b}?", "{a} + {b}", "{a} + {b} = ?",
            "How much is {a} [+|plus] {b}?", "Add {a} and {b}.",
            "Calculate {a} [+|plus] {b}.", "What is the sum of {a} and {b}?", "Sum {a} and {b}.",
            "{a} plus {b}?",
            "Solve {a} + {b}.", "Tell me {a} + {b}.", "What do you get for {a} + {b}?",
            "[Compute|Work out] {a} plus {b}.",
        ], [
            "Can you add {a} and {b}?", "What does {a} + {b} make?", "Please compute {a} + {b}.",
            "Give me the sum of {a} and {b}.",
        ]),
        "pt": ([
            "Quanto é {a} [+|mais] {b}?", "{a} + {b}", "{a} + {b} = ?",
            "Quanto dá {a} [+|mais] {b}?", "Some {a} e {b}.",
            "Calcule {a} [+|mais] {b}.", "Qual é a soma de {a} e {b}?", "Faça {a} + {b}.",
            "{a} mais {b}?",
            "Resolva {a} + {b}.", "Diga quanto é {a} + {b}.", "[Me dê|Diga] a soma de {a} e {b}.",
        ], [
            "Pode somar {a} e {b}?", "Quanto fica {a} + {b}?", "Por favor, calcule {a} mais {b}.",
            "Qual o resultado de {a} + {b}?",
        ]),
    },
    "difference": {
        "en": ([
            "What is {a} [-|minus] {b}?", "{a} - {b}", "{a} - {b} = ?",
            "How much is {a} [-|minus] {b}?",
            "Subtract {b} from {a}.", "Calculate {a} [-|minus] {b}.", "{a} minus {b}?",
            "Solve {a} - {b}.",
            "Tell me {a} - {b}.", "What do you get for {a} - {b}?", "Take {b} from {a}.",
            "[Compute|Work out] {a} minus {b}.",
        ], [
            "Can you subtract {b} from {a}?", "What does {a} - {b} make?",
            "Please compute {a} - {b}.",
        ]),
        "pt": ([
            "Quanto é {a} [-|menos] {b}?", "{a} - {b}", "{a} - {b} = ?",
            "Quanto dá {a} [-|menos] {b}?", "Tire {b} de {a}.",
            "Calcule {a} [-|menos] {b}.", "Subtraia {b} de {a}.", "Faça {a} - {b}.",
            "{a} menos {b}?", "Resolva {a} - {b}.",
            "Diga quanto é {a} - {b}.",
        ], [
            "Pode subtrair {b} de {a}?", "Quanto fica {a} - {b}?",
            "Por favor, calcule {a} menos {b}.",
        ]),
    },
    "product": {
        "en": ([
            "What is {a} [*|times] {b}?", "{a} * {b}", "{a} * {b} = ?",
            "How much is {a} [*|times] {b}?",
            "Multiply {a} by {b}.", "Calculate {a} [*|times] {b}.", "{a} times {b}?",
            "What is the product of {a} and {b}?",
            "Solve {a} * {b}.", "Tell me {a} * {b}.", "Multiply {a} and {b}.",
            "[Compute|Work out] {a} times {b}.",
        ], [
            "Can you multiply {a} by {b}?", "What does {a} * {b} make?",
            "Please compute {a} * {b}.",
        ]),
        "pt": ([
            "Quanto é {a} [*|vezes] {b}?", "{a} * {b}", "{a} * {b} = ?",
            "Quanto dá {a} [*|vezes] {b}?",
            "Multiplique {a} por {b}.", "Calcule {a} [*|vezes] {b}.", "{a} vezes {b}?",
            "Qual é o produto de {a} e {b}?",
            "Resolva {a} * {b}.", "Diga quanto é {a} * {b}.", "Faça {a} * {b}.",
        ], [
            "Pode multiplicar {a} por {b}?", "Quanto fica {a} * {b}?",
            "Por favor, calcule {a} vezes {b}.",
        ]),
    },
    "story_more": {
        "en": ([
            "{name} has {a} {items} and buys {b} more. How many {items} does {name} have?",
            "{name} had {a} {items} and got {b} more. How many {items} now?",
            "{name} finds {a} {items}, then {b} more. How many in all?",
            "There are {a} {items} in a box. {name} adds {b}. How many are there?",
        ], [
            "{name} has {a} {items}. Then {name} gets {b} more. How many {items} now?",
            "{name} had {a} {items} and buys {b} more. How many in all?",
        ]),
        "pt": ([
            "{name} tem {a} {items} e compra mais {b}. Quantas {items} {name} tem?",
            "{name} tinha {a} {items} e ganhou mais {b}. Quantas {items} agora?",
            "{name} acha {a} {items} e depois mais {b}. Quantas ao todo?",
            "Há {a} {items} na caixa. {name} põe mais {b}. Quantas são?",
        ], [
            "{name} tem {a} {items}. Depois ganha mais {b}. Quantas {items} agora?",
            "{name} tinha {a} {items} e compra mais {b}. Quantas ao todo?",
        ]),
    },
    "story_less": {
        "en": ([
            "{name} has {a} {items} and gives away {b}. How many {items} are left?",
            "{name} had {a} {items} and lost {b}. How many {items} now?",
            "{name} had {a} {items}, then sold {b}. How many are left?",
        ], [
            "{name} has {a} {items}. Then {name} loses {b}. How many {items} now?",
            "{name} had {a} {items} and gives away {b}. How many are left?",
        ]),
        "pt": ([
            "{name} tem {a} {items} e dá {b}. Quantas {items} sobram?",
            "{name} tinha {a} {items} e perdeu {b}. Quantas {items} agora?",
            "{name} tinha {a} {items} e vendeu {b}. Quantas sobram?",
        ], [
            "{name} tem {a} {items}. Depois perde {b}. Quantas {items} agora?",
            "{name} tinha {a} {items} e dá {b}. Quantas sobram?",
        ]),
    },
    "list": {
        "en": ([
            "List the {group}{form}.", "What are the {group}{form}?", "Name the {group}{form}.",
            "Give me the {group}{form}.",
            "Write the {group}{form}.", "Say the {group}{form}.", "Tell me the {group}{form}.",
            "I need [a list of ]the {group}{form}.", "Which are the {group}{form}?",
            "[Print|Show] the {group}{form}.",
        ], [
            "Can you list the {group}{form}?", "Please write down the {group}{form}.",
            "Show me the {group}{form}.",
        ]),
        "pt": ([
            "Liste {the} {group}{form}.", "Quais são {the} {group}{form}?",
            "Diga {the} {group}{form}.",
            "Escreva {the} {group}{form}.", "Me dê {the} {group}{form}.",
            "Fale {the} {group}{form}.",
            "Preciso d{the} {group}{form}.", "Faça uma lista d{the} {group}{form}.",
            "[Mostre|Imprima] {the} {group}{form}.",
        ], [
            "Pode listar {the} {group}{form}?", "Por favor, escreva {the} {group}{form}.",
            "Me mostre {the} {group}{form}.",
        ]),
    },
    "count": {
        "en": ([
            "Count from {a} to {b}.", "List the numbers from {a} to {b}.",
            "Write the numbers from {a} to {b}.",
            "Say the numbers from {a} to {b}.", "Numbers from {a} to {b}?", "Count {a} to {b}.",
            "Start at {a} and count to {b}.", "I want the numbers from {a} to {b}.",
        ], [
            "Can you count from {a} to {b}?", "Give me the numbers from {a} to {b}.",
            "Please count from {a} up to {b}.",
        ]),
        "pt": ([
            "Conte de {a} a {b}.", "Liste os números de {a} a {b}.",
            "Escreva os números de {a} a {b}.",
            "Diga os números de {a} a {b}.", "Números de {a} a {b}?", "Conte de {a} até {b}.",
            "Comece em {a} e conte até {b}.", "Quero os números de {a} até {b}.",
        ], [
            "Pode contar de {a} a {b}?", "Me dê os números de {a} a {b}.",
            "Por favor, conte de {a} até {b}.",
        ]),
    },
    "after": {
        "en": ([
            "What comes after {x}?", "What is after {x}?", "Which one comes after {x}?",
            "Say what follows {x}.",
            "After {x} comes what?", "Tell me what comes after {x}.", "What follows {x}?",
        ], [
            "Can you say what comes after {x}?", "What comes next after {x}?",
            "Which comes right after {x}?",
        ]),
        "pt": ([
            "O que vem depois de {x}?", "Qual vem depois de {x}?", "Diga o que vem depois de {x}.",
            "Depois de {x} vem o quê?", "O que segue {x}?", "Me diga o que vem após {x}.",
        ], [
            "Pode dizer o que vem depois de {x}?", "O que vem logo depois de {x}?",
            "Qual é o que vem depois de {x}?",
        ]),
    },
    "before": {
        "en": ([
            "What comes before {x}?", "What is before {x}?", "Which one comes before {x}?",
            "Say what precedes {x}.",
            "Before {x} comes what?", "Tell me what comes before {x}.",
        ], [
            "Can you say what comes before {x}?", "What comes just before {x}?",
            "Which comes right before {x}?",
        ]),
        "pt": ([
            "O que vem antes de {x}?", "Qual vem antes de {x}?", "Diga o que vem antes de {x}.",
            "Antes de {x} vem o quê?", "Me diga o que vem antes de {x}.",
        ], [
            "Pode dizer o que vem antes de {x}?", "O que vem logo antes de {x}?",
            "Qual é o que vem antes de {x}?",
        ]),
    },
    "opposite": {
        "en": ([
            "What is the opposite of {x}?", "Opposite of {x}?", "Tell me the opposite of {x}.",
            "Say the opposite of {x}.",
            "Which word is the opposite of {x}?", "The opposite of {x} is what?",
            "{x}: what is the opposite?",
        ], [
            "Can you give the opposite of {x}?", "Do you know the opposite of {x}?",
            "Name the opposite of {x}.",
        ]),
        "pt": ([
            "Qual é o contrário de {x}?", "Contrário de {x}?", "Diga o contrário de {x}.",
            "Me diga o contrário de {x}.",
            "Que palavra é o contrário de {x}?", "O contrário de {x} é o quê?",
            "{x}: qual é o contrário?",
        ], [
            "Pode dar o contrário de {x}?", "Você sabe o contrário de {x}?",
            "Fale o contrário de {x}.",
        ]),
    },
    "capital": {
        "en": ([
            "What is the capital of {x}?", "Capital of {x}?", "Tell me the capital of {x}.",
            "Say the capital of {x}.",
            "Which city is the capital of {x}?", "The capital of {x} is what?",
            "{x}: what is the capital?",
        ], [
            "Can you name the capital of {x}?", "Do you know the capital of {x}?",
            "Name the capital of {x}.",
        ]),
        "pt": ([
            "Qual é a capital {x}?", "Capital {x}?", "Diga a capital {x}.",
            "Me diga a capital {x}.",
            "Que cidade é a capital {x}?", "A capital {x} é qual?", "Quero saber a capital {x}.",
        ], [
            "Pode dizer a capital {x}?", "Você sabe a capital {x}?", "Qual cidade é a capital {x}?",
        ]),
    },
    "to_pt": {
        "en": ([
            "How do you say {x} in Portuguese?", "Translate {x} to Portuguese.",
            "What is {x} in Portuguese?",
            "{x} in Portuguese?", "Say {x} in Portuguese.", "I want {x} in Portuguese.",
        ], [
            "Can you translate {x} into Portuguese?", "Which word is {x} in Portuguese?",
            "What is the Portuguese word for {x}?",
        ]),
    },
    "to_en": {
        "pt": ([
            "Como se diz {x} em inglês?", "Traduza {x} para o inglês.", "O que é {x} em inglês?",
            "{x} em inglês?",
            "Diga {x} em inglês.", "Quero {x} em inglês.",
        ], [
            "Pode traduzir {x} para o inglês?", "Por favor, diga {x} em inglês.",
            "Qual é a palavra inglesa para {x}?",
        ]),
    },
    "identity": {
        "en": ([
            "Who are you?", "What are you?", "What is your name?", "Tell me who you are.",
            "Are you a person?",
            "Introduce yourself.", "What is your name, please?", "Say who you are.",
            "Who is talking to me?",
            "Are you a human?", "Are you a robot?", "Your name?",
        ], [
            "Can you tell me who you are?", "Please introduce yourself.", "And who are you?",
        ]),
        "pt": ([
            "Quem é você?", "O que é você?", "Qual é o seu nome?", "Diga quem você é.",
            "Você é uma pessoa?",
            "Apresente-se.", "Como você se chama?", "Fale quem é você.", "Quem fala comigo?",
            "Você é humano?",
            "Você é um robô?", "Seu nome?",
        ], [
            "Pode me dizer quem você é?", "Por favor, apresente-se.", "E quem é você?",
        ]),
    },
    "greeting": {
        "en": (["Hi!", "Hello!", "Hello there!", "Good morning!", "Hey!", "Hi, how are you?",
                "Good evening!",
                "Hello, my friend!", "Hi Mirim!", "Hello, how are you?", "Good afternoon, Mirim!",
                "Good afternoon, how are you?", "Hey there!"],
               ["Hi there!", "Good afternoon!", "Hey, hello!"]),
        "pt": (["Oi!", "Olá!", "Bom dia!", "Oi, tudo bem?", "Boa noite!", "Olá, meu amigo!",
                "Oi, Mirim!",
                "Olá, como vai?", "E aí!", "Oi oi!", "Boa tarde, Mirim!", "Boa tarde, como vai?",
                "Olá, olá!"],
               ["Olá, tudo bem?", "Boa tarde!", "Bom dia, amigo!"]),
    },
    "thanks": {
        "en": (["Thanks!", "Thank you!", "Many thanks, Mirim!", "Good, thanks!",
                "Thank you very much!", "Thanks a lot.", "Great, thanks!", "Thank you, Mirim."],
               ["Many thanks!", "Good, thank you!"]),
        "pt": (["Obrigado!", "Obrigada!", "Muito obrigado!", "Obrigada, Mirim.", "Bom, obrigada!",
                "Muito, muito obrigada!", "Valeu!", "Obrigado, Mirim.", "Ótimo, obrigado!"],
               ["Muito obrigada!", "Bom, obrigado!"]),
    },
    "repeat": {
        "en": (["Repeat: {x}", "Say: {x}", "Repeat after me: {x}", "Write: {x}", "Copy this: {x}",
                "Say again: {x}"],
               ["Repeat this: {x}", "Say after me: {x}"]),
        "pt": (["Repita: {x}", "Diga: {x}", "Repita comigo: {x}", "Escreva: {x}",
                "Copie isto: {x}", "Diga de novo: {x}"],
               ["Repita isto: {x}", "Diga comigo: {x}"]),
    },
    "quote": {
        "en": (["Repeat in quotes: {x}", "In quotes: {x}", "Put in quotes: {x}",
                "Quote: {x}"], ["Say in quotes: {x}"]),
        "pt": (["Repita entre aspas: {x}", "Entre aspas: {x}",
                "Ponha entre aspas: {x}"], ["Diga entre aspas: {x}"]),
    },
    "my_name": {
        "en": (["My name is {name}.", "I am {name}.", "Hi, I am {name}.",
                "Hello! My name is {name}.", "They call me {name}.",
                "You can call me {name}."],
               ["I am {name}, hello!", "Well, my name is {name}."]),
        "pt": (["Meu nome é {name}.", "Eu sou {name}.", "Oi, eu sou {name}.",
                "Olá! Meu nome é {name}.",
                "Eu me chamo {name}.", "Pode me chamar de {name}."],
               ["Eu sou {name}, olá!", "Então, meu nome é {name}."]),
    },
    "ask_name": {
        "en": (["What is my name?", "Do you remember my name?", "Who am I?", "Say my name.",
                "Tell me my name."],
               ["Can you say my name?", "Do you know my name?"]),
        "pt": (["Qual é o meu nome?", "Você lembra o meu nome?", "Quem sou eu?",
                "Diga o meu nome.", "Como eu me chamo?"],
               ["Pode dizer o meu nome?", "Você sabe o meu nome?"]),
    },
    "person": {
        "en": ([
            "Make a JSON record: name {name}, age {age}, city {city}.",
            "Write a JSON record for {name}, {age} years old, from {city}.",
            "Turn this into JSON: {name} is {age} years old and lives in {city}.",
            "JSON record: {name}, age {age}, {city}.",
            "{name} is {age} and lives in {city}. [Write|Give] it as JSON.",
            "Create JSON for {name} from {city}, age {age}.",
            "Give me JSON with name {name}, age {age} and city {city}.",
            "As JSON: {name} lives in {city} and is {age} years old.",
            "[Extract|Put] the data as JSON: {name}, who lives in {city}, is {age}.",
        ], [
            "Can you make a JSON record of {name}, who is {age} years old and lives in {city}?",
            "Please write JSON for {name}, age {age}, city {city}.",
            "Convert to JSON: {name} is {age} years old and lives in {city}.",
        ]),
        "pt": ([
            "Faça um registro JSON: nome {name}, idade {age}, cidade {city}.",
            "Escreva um registro JSON para {name}, {age} anos, de {city}.",
            "Passe para JSON: {name} tem {age} anos e mora em {city}.",
            "Registro JSON: {name}, idade {age}, {city}.",
            "{name} tem {age} anos e mora em {city}. [Escreva|Dê] como JSON.",
            "Crie JSON para {name} de {city}, idade {age}.",
            "Me dê JSON com nome {name}, idade {age} e cidade {city}.",
            "Em JSON: {name} mora em {city} e tem {age} anos.",
            "[Extraia|Ponha] os dados em JSON: {name}, que mora em {city}, tem {age} anos.",
        ], [
            "Pode fazer um registro JSON de {name}, que tem {age} anos e mora em {city}?",
            "Por favor, escreva JSON para {name}, idade {age}, cidade {city}.",
            "Converta para JSON: {name} tem {age} anos e mora em {city}.",
        ]),
    },
    "worker": {
        "en": ([
            "Make a JSON record: name {name}, job {job}.",
            "Turn this into JSON: {name} works as a {job}.",
            "JSON record: {name}, {job}.", "{name} is a {job}. [Write|Give] it as JSON.",
            "Write a JSON record for {name}, who works as a {job}.",
            "Give me JSON with name {name} and job {job}.",
        ], [
            "Please write JSON for {name}, job {job}.", "Convert to JSON: {name} works as a {job}.",
        ]),
        "pt": ([
            "Faça um registro JSON: nome {name}, trabalho {job}.",
            "Passe para JSON: {name} trabalha como {job}.",
            "Registro JSON: {name}, {job}.", "{name} é {job}. [Escreva|Dê] como JSON.",
            "Escreva um registro JSON para {name}, que trabalha como {job}.",
            "Me dê JSON com nome {name} e trabalho {job}.",
        ], [
            "Por favor, escreva JSON para {name}, trabalho {job}.",
            "Converta para JSON: {name} trabalha como {job}.",
        ]),
    },
    "stock": {
        "en": ([
            "Make a JSON record: item {item}, price {price}, quantity {n}.",
            "Turn this into JSON: {n} {item} at {price} each.",
            "JSON record: {item}, price {price}, quantity {n}.",
            "We have {n} {item} and each costs {price}. [Write|Give] it as JSON.",
            "Give me JSON with item {item}, price {price} and quantity {n}.",
        ], [
            "Please write JSON for item {item}, price {price}, quantity {n}.",
            "Convert to JSON: {n} {item} at {price} each.",
        ]),
        "pt": ([
            "Faça um registro JSON: item {item}, preço {price}, quantidade {n}.",
            "Passe para JSON: {n} {item} a {price} cada.",
            "Registro JSON: {item}, preço {price}, quantidade {n}.",
            "Temos {n} {item} e cada um custa {price}. [Escreva|Dê] como JSON.",
            "Me dê JSON com item {item}, preço {price} e quantidade {n}.",
        ], [
            "Por favor, escreva JSON para item {item}, preço {price}, quantidade {n}.",
            "Converta para JSON: {n} {item} a {price} cada.",
        ]),
    },
    "get_weather": {
        "en": ([
            "How is the weather in {city}?", "What is the weather like in {city}?",
            "Weather in {city}?",
            "Tell me the weather in {city}.", "Is it raining in {city}?",
            "Check the weather in {city}.",
            "I am going to {city}. How is the weather there?", "What is the weather in {city} now?",
        ], [
            "Can you check the weather in {city}?", "What weather is it in {city} today?",
            "Please look up the weather in {city}.",
        ]),
        "pt": ([
            "Como está o tempo em {city}?", "Que tempo faz em {city}?", "Tempo em {city}?",
            "Diga o tempo em {city}.",
            "Está chovendo em {city}?", "Veja o tempo em {city}.",
            "Vou para {city}. Como está o tempo lá?",
            "Qual é o tempo em {city} agora?",
        ], [
            "Pode ver o tempo em {city}?", "Como está o tempo hoje em {city}?",
            "Por favor, consulte o tempo em {city}.",
        ]),
    },
    "get_time": {
        "en": ([
            "What time is it in {city}?", "Time in {city}?", "Tell me the time in {city}.",
            "What is the time in {city}?",
            "Check the time in {city}.", "I need the time in {city}.",
            "What time is it now in {city}?",
        ], [
            "Can you tell me the time in {city}?", "Please check what time it is in {city}.",
        ]),
        "pt": ([
            "Que horas são em {city}?", "Hora em {city}?", "Diga as horas em {city}.",
            "Qual é a hora em {city}?",
            "Veja as horas em {city}.", "Preciso da hora em {city}.",
            "Que horas são agora em {city}?",
        ], [
            "Pode me dizer as horas em {city}?", "Por favor, veja que horas são em {city}.",
        ]),
    },
    "set_timer": {
        "en": ([
            "Set a timer for {n} minutes.", "Timer for {n} minutes.",
            "Start a timer of {n} minutes.",
            "Wake me in {n} minutes.", "I need a timer for {n} minutes.",
            "Put a timer on {n} minutes.",
        ], [
            "Can you set a timer for {n} minutes?", "Please start a {n} minutes timer.",
        ]),
        "pt": ([
            "Marque um timer de {n} minutos.", "Timer de {n} minutos.",
            "Comece um timer de {n} minutos.",
            "Me acorde em {n} minutos.", "Preciso de um timer de {n} minutos.",
            "Ponha um timer de {n} minutos.",
        ], [
            "Pode marcar um timer de {n} minutos?", "Por favor, comece um timer de {n} minutos.",
        ]),
    },
    "calculate": {
        "en": (["What is {a} {op} {b}?", "Calculate {a} {op} {b}.", "{a} {op} {b} = ?",
                "How much is {a} {op} {b}?",
                "Solve {a} {op} {b}.", "Tell me {a} {op} {b}."],
               ["Please compute {a} {op} {b}.", "What does {a} {op} {b} make?"]),
        "pt": (["Quanto é {a} {op} {b}?", "Calcule {a} {op} {b}.", "{a} {op} {b} = ?",
                "Quanto dá {a} {op} {b}?",
                "Resolva {a} {op} {b}.", "Diga quanto é {a} {op} {b}."],
               ["Por favor, calcule {a} {op} {b}.", "Quanto fica {a} {op} {b}?"]),
    },
    "get_measure": {
        "en": (["What is the {x} in {city}?", "Tell me the {x} in {city}.",
                "Check the {x} in {city}.", "{x} in {city}?",
                "I need the {x} in {city}.", "Show me the {x} in {city}."],
               ["Can you check the {x} in {city}?", "Please look up the {x} in {city}."]),
        "pt": (["Como está: {x} em {city}?", "Diga: {x} em {city}.", "Veja {x} em {city}.",
                "{x} em {city}?",
                "Preciso saber: {x} em {city}.", "Mostre {x} em {city}."],
               ["Pode ver {x} em {city}?", "Por favor, consulte {x} em {city}."]),
    },
    "unknown": {
        "en": (["What is the meaning of life?", "Who wins the game tomorrow?",
                "Write a poem about love.",
                "Explain quantum physics.", "What is the price of gold?", "Who is the president?",
                "Tell me a long story.", "How do I fix my car?", "What should I eat?",
                "Write a program in C.",
                "Who wrote this book?", "What is the best film?", "How far is the moon?",
                "When did the war end?",
                "What is the news today?", "How do planes fly?", "Why is the universe so large?",
                "Give me a recipe for cake.", "Who invented the telephone?",
                "Explain how a computer works.",
                "What is love?", "How many people live on Earth?", "Write a song about the war.",
                "What are the rules of chess?"],
               ["What is the price of silver?", "Write a story about the war.",
                "How do I fix my computer?",
                "Who invented the car?", "Explain how planes work.", "What is the best song?"]),
        "pt": (["Qual é o sentido da vida?", "Quem ganha o jogo amanhã?",
                "Escreva um poema de amor.",
                "Explique a física quântica.", "Qual é o preço do ouro?", "Quem é o presidente?",
                "Conte uma longa história.", "Como conserto o meu carro?", "O que devo comer?",
                "Escreva um programa em C.", "Quem escreveu este livro?", "Qual é o melhor filme?",
                "A que distância fica a lua?", "Quando acabou a guerra?",
                "Quais são as notícias de hoje?",
                "Como voam os aviões?", "Por que o universo é tão grande?",
                "Me dê uma receita de bolo.",
                "Quem inventou o telefone?", "Explique como funciona um computador.",
                "O que é o amor?",
                "Quantas pessoas vivem na Terra?", "Escreva uma canção sobre a guerra.",
                "Quais são as regras do xadrez?"],
               ["Qual é o preço da prata?", "Escreva uma história sobre a guerra.",
                "Como conserto o meu computador?",
                "Quem inventou o carro?", "Explique como funcionam os aviões.",
                "Qual é a melhor canção?"]),
    },
}

# Orders that training may turn into requests; in Portuguese with the verb's infinitive.
VERBS = {
    "en": {v: v.lower() for v in (
        "Tell Say Describe Give List Name Write Add Sum Calculate Solve Subtract Take Multiply "
        "Count Make Turn Create Check Show Set Start Put Translate Compute Talk").split()},
    "pt": {"Diga": "dizer", "Fale": "falar", "Conte": "contar", "Descreva": "descrever",
           "Liste": "listar",
           "Escreva": "escrever", "Some": "somar", "Calcule": "calcular", "Resolva": "resolver",
           "Faça": "fazer",
           "Subtraia": "subtrair", "Tire": "tirar", "Multiplique": "multiplicar", "Veja": "ver",
           "Traduza": "traduzir",
           "Passe": "passar", "Crie": "criar", "Marque": "marcar", "Comece": "começar",
           "Ponha": "pôr",
           "Mostre": "mostrar"},
}

# Raw documents: openings that the text goes on from. {s} is the sentence's fact.
OPENINGS = {
    "weather": {
        "en": (["The weather {when} is so {s}.", "{When} the weather is so {s}.",
                "The weather {when} feels {s}.",
                "We say that the weather {when} is {s}.", "{When} it is so {s}."],
               ["I think the weather {when} is so {s}.", "{When} the weather feels so {s}."]),
        "pt": (["O tempo {when} está {s}.", "{When} o tempo está {s}.", "O tempo {when} é {s}.",
                "Dizem que o tempo {when} está {s}.", "{When} o tempo fica {s}."],
               ["Acho que o tempo {when} está {s}.", "Sei que {when} o tempo fica {s}."]),
    },
    "thing": {
        "en": (["{The} {thing} is {s}.", "We see that {the} {thing} is {s}.",
                "Look, {the} {thing} is {s}.",
                "In this place {the} {thing} is {s}.", "They say that {the} {thing} is {s}."],
               ["I think that {the} {thing} is {s}.", "Look and see that {the} {thing} is {s}."]),
        "pt": (["{The} {thing} é {s}.", "Vemos que {the} {thing} é {s}.",
                "Olhe, {the} {thing} é {s}.",
                "Neste lugar {the} {thing} é {s}.", "Dizem que {the} {thing} é {s}."],
               ["Acho que {the} {thing} é {s}.", "Olhe e veja que {the} {thing} é {s}."]),
    },
}
