/* The table: every command, every option, and which options go together. */
#include "opt_priv.h"

#define C(c)    (1u << MT_CMD_##c)
#define RANKED  (C(GENERATE) | C(CHAT) | C(SCORE) | C(LOGITS) | C(BENCH) | C(TRACE))
#define ALL     (RANKED | C(TOKENIZE) | C(INSPECT))
#define TALKS   (C(GENERATE) | C(CHAT))
#define SAMPLES (TALKS | C(TRACE))
#define BIG     2147483647.0

const char *const mt_opt_group_title[MT_GROUP_COUNT] = {
    "Input",   "Output", "Choosing the token", "Measuring", "Model and cache", "Ranks and machine",
    "General",
};

const mt_opt_command_row mt_opt_commands[MT_CMD_COUNT] = {
    [MT_CMD_GENERATE] =
        {"generate", true, "prompt to text, streamed to standard output",
         "Only the text goes to standard output; everything else to standard error.",
         "  mutirao generate -n 2 -p \"Today's weather is so\" --max-tokens 20\n"
         "  mutirao generate --chat -p \"What is the capital of Brazil?\" --temperature 0\n"},
    [MT_CMD_CHAT] = {"chat", true, "a conversation in the terminal",
                     "Type a line to speak; Ctrl-C stops the answer; /reset forgets, /system TEXT "
                     "sets the system "
                     "message,\nCtrl-D ends.",
                     "  mutirao chat -n 2 --system \"Answer in one sentence.\"\n"},
    [MT_CMD_SCORE] = {"score", true, "log-probabilities and perplexity of a text", NULL,
                      "  mutirao score --file text.txt --window 512 --stride 256 --json\n"},
    [MT_CMD_LOGITS] =
        {"logits", true, "raw logits of given token ids, to compare with other engines",
         "The output is float32, little-endian, [tokens, vocabulary], row-major, nothing else.",
         "  mutirao logits -n 3 --ids 1,2,3 --kv-type f32 --out logits.f32\n"},
    [MT_CMD_TOKENIZE] =
        {"tokenize", false, "text to ids and back, counts, chat template rendering",
         "Reads standard input. Needs only the tokenizer files of a model directory.",
         "  echo -n 'O céu é' | mutirao tokenize\n"
         "  mutirao tokenize --chat < messages.json\n"},
    [MT_CMD_INSPECT] = {"inspect", false,
                        "what a model is, how it is cut over N ranks, memory per rank", NULL,
                        "  mutirao inspect -m model.gguf -n 8 --ctx 32768\n"},
    [MT_CMD_BENCH] = {"bench", true, "prefill and decode throughput here",
                      "Memory's rate and the peak of the arithmetic are measured in the same run, "
                      "and what part of\nthem the model reaches is printed beside.",
                      "  mutirao bench -n 2 -t 4 --prompt 256 --generate 64 --repeat 5 --json\n"
                      "  mutirao bench --batch 1,2,4,8 --prompt 128 --generate 32\n"
                      "  mutirao bench --shapes 500:1,1000:1,1:50,1:100\n"},
    [MT_CMD_TRACE] = {"trace", true, "one token's journey through the six stages",
                      "Shows times, bytes moved and candidates for each stage of each step.",
                      "  mutirao trace -n 2 -p \"O céu é\" --tokens 3 --top 5\n"},
};

/* Columns: name, letter, kind, group, commands, value, default, min, max, above, choices, help. */
static const mt_opt_row rows[] = {
    {"prompt", 'p', MT_OPT_STRING, MT_GROUP_INPUT, C(GENERATE) | C(SCORE) | C(TRACE), "TEXT", NULL,
     0, 0, false, NULL, "the text to go on from (score: the text to judge)"},
    {"prompt-file", 0, MT_OPT_PATH, MT_GROUP_INPUT, C(GENERATE) | C(TRACE), "FILE", NULL, 0, 0,
     false, NULL, "the same from a file; - is standard input"},
    {"file", 0, MT_OPT_PATH, MT_GROUP_INPUT, C(SCORE), "FILE", NULL, 0, 0, false, NULL,
     "the text to judge; - is standard input"},
    {"ids", 0, MT_OPT_IDS, MT_GROUP_INPUT, C(GENERATE) | C(SCORE) | C(LOGITS) | C(TRACE), "LIST",
     NULL, 0, BIG, false, NULL, "token ids instead of text: comma-separated, or @FILE"},
    {"chat", 0, MT_OPT_FLAG, MT_GROUP_INPUT, C(GENERATE) | C(TRACE), NULL, NULL, 0, 0, false, NULL,
     "apply the model's chat template to the prompt as a user message"},
    {"system", 0, MT_OPT_STRING, MT_GROUP_INPUT, TALKS | C(TRACE), "TEXT", NULL, 0, 0, false, NULL,
     "system message before the conversation"},
    {"chat-template", 0, MT_OPT_PATH, MT_GROUP_INPUT, TALKS | C(TRACE) | C(TOKENIZE), "FILE", NULL,
     0, 0, false, NULL, "use this template instead of the model's own"},

    {"no-special", 0, MT_OPT_FLAG, MT_GROUP_INPUT, C(TOKENIZE), NULL, NULL, 0, 0, false, NULL,
     "add no special tokens (no begin-of-text)"},
    {"no-parse-special", 0, MT_OPT_FLAG, MT_GROUP_INPUT, C(TOKENIZE), NULL, NULL, 0, 0, false, NULL,
     "special-token text in the input stays plain text"},
    {"decode", 0, MT_OPT_FLAG, MT_GROUP_INPUT, C(TOKENIZE), NULL, NULL, 0, 0, false, NULL,
     "the other way: comma-separated ids in, text out"},
    {"chat", 0, MT_OPT_FLAG, MT_GROUP_INPUT, C(TOKENIZE), NULL, NULL, 0, 0, false, NULL,
     "read {\"messages\": […], \"tools\": […], \"add_generation_prompt\": …, "
     "\"chat_template_kwargs\": {…}} and write "
     "the rendered prompt"},
    {"stats", 0, MT_OPT_FLAG, MT_GROUP_OUTPUT, C(TOKENIZE), NULL, NULL, 0, 0, false, NULL,
     "print characters, words, tokens and tokens per word"},
    {"explain", 0, MT_OPT_FLAG, MT_GROUP_OUTPUT, C(TOKENIZE), NULL, NULL, 0, 0, false, NULL,
     "show the pieces and the merges in order"},

    {"max-tokens", 0, MT_OPT_INT, MT_GROUP_OUTPUT, TALKS, "K", NULL, 1, BIG, false, NULL,
     "stop after K tokens (default: what the context still holds)"},
    {"choices", 0, MT_OPT_INT, MT_GROUP_OUTPUT, C(GENERATE), "N", "1", 1, 1024, false, NULL,
     "answer N times, each with its own random numbers"},
    {"echo", 0, MT_OPT_FLAG, MT_GROUP_OUTPUT, C(GENERATE), NULL, NULL, 0, 0, false, NULL,
     "print the prompt first"},
    {"ids-out", 0, MT_OPT_PATH, MT_GROUP_OUTPUT, C(GENERATE), "FILE", NULL, 0, 0, false, NULL,
     "write the generated ids there, comma-separated, one line"},
    {"out", 0, MT_OPT_PATH, MT_GROUP_OUTPUT, C(LOGITS), "FILE", "-", 0, 0, false, NULL,
     "where the logits go; - is standard output"},
    {"last", 0, MT_OPT_FLAG, MT_GROUP_OUTPUT, C(LOGITS), NULL, NULL, 0, 0, false, NULL,
     "only the logits of the last token"},

    {"temperature", 0, MT_OPT_DOUBLE, MT_GROUP_SAMPLING, SAMPLES, "T", NULL, 0, 100, false, NULL,
     "divides the logits; 0 is greedy (default: the model's)"},
    {"top-k", 0, MT_OPT_INT, MT_GROUP_SAMPLING, SAMPLES, "K", NULL, 0, BIG, false, NULL,
     "keep the K likeliest; 0 keeps all (default: the model's)"},
    {"top-p", 0, MT_OPT_DOUBLE, MT_GROUP_SAMPLING, SAMPLES, "P", NULL, 0, 1, true, NULL,
     "keep the smallest set of probability P (default: the model's)"},
    {"min-p", 0, MT_OPT_DOUBLE, MT_GROUP_SAMPLING, SAMPLES, "P", NULL, 0, 1, false, NULL,
     "drop what is less likely than P times the likeliest (default: the model's)"},
    {"typical-p", 0, MT_OPT_DOUBLE, MT_GROUP_SAMPLING, SAMPLES, "P", NULL, 0, 1, true, NULL,
     "locally typical set of probability P (default: the model's)"},
    {"repetition-penalty", 0, MT_OPT_DOUBLE, MT_GROUP_SAMPLING, SAMPLES, "R", NULL, 0, 100, true,
     NULL, "above 1 discourages tokens seen before (default: the model's)"},
    {"presence-penalty", 0, MT_OPT_DOUBLE, MT_GROUP_SAMPLING, SAMPLES, "A", "0", -100, 100, false,
     NULL, "subtracted once for each token seen before"},
    {"frequency-penalty", 0, MT_OPT_DOUBLE, MT_GROUP_SAMPLING, SAMPLES, "A", "0", -100, 100, false,
     NULL, "subtracted for each time a token was seen before"},
    {"logit-bias", 0, MT_OPT_BIASES, MT_GROUP_SAMPLING, SAMPLES, "ID=VALUE", NULL, -1000, 1000,
     false, NULL, "added to the logit of token ID; may be repeated"},
    {"temperature-last", 0, MT_OPT_FLAG, MT_GROUP_SAMPLING, SAMPLES, NULL, NULL, 0, 0, false, NULL,
     "apply the temperature after the filters instead of before"},
    {"seed", 0, MT_OPT_U64, MT_GROUP_SAMPLING, SAMPLES, "U64", NULL, 0, 0, false, NULL,
     "the same seed gives the same text on any number of ranks (default: a new one, shown with "
     "-v)"},
    {"stop", 0, MT_OPT_STRINGS, MT_GROUP_SAMPLING, TALKS, "STRING", NULL, 0, 0, false, NULL,
     "end before this text; may be repeated"},
    {"ignore-eos", 0, MT_OPT_FLAG, MT_GROUP_SAMPLING, TALKS, NULL, NULL, 0, 0, false, NULL,
     "go on after the model's end token"},

    {"window", 0, MT_OPT_INT, MT_GROUP_MEASURE, C(SCORE), "W", NULL, 2, BIG, false, NULL,
     "tokens seen at once (default: the model's context)"},
    {"stride", 0, MT_OPT_INT, MT_GROUP_MEASURE, C(SCORE), "S", NULL, 1, BIG, false, NULL,
     "tokens by which the window moves, less than W (default: half of W)"},
    {"per-token", 0, MT_OPT_FLAG, MT_GROUP_MEASURE, C(SCORE), NULL, NULL, 0, 0, false, NULL,
     "print the log-probability of every token"},
    {"prompt", 0, MT_OPT_INT, MT_GROUP_MEASURE, C(BENCH), "P", "256", 1, BIG, false, NULL,
     "tokens of the prompt"},
    {"generate", 0, MT_OPT_INT, MT_GROUP_MEASURE, C(BENCH), "G", "64", 1, BIG, false, NULL,
     "tokens to generate"},
    {"repeat", 0, MT_OPT_INT, MT_GROUP_MEASURE, C(BENCH), "R", "3", 1, 10000, false, NULL,
     "runs; the median is reported, the samples beside it"},
    {"batch", 0, MT_OPT_IDS, MT_GROUP_MEASURE, C(BENCH), "LIST", NULL, 0, BIG, false, NULL,
     "so many sequences at once, as in 1,2,4: what doubling the batch buys and costs"},
    {"shapes", 0, MT_OPT_STRING, MT_GROUP_MEASURE, C(BENCH), "LIST", NULL, 0, 0, false, NULL,
     "requests of IN:OUT tokens, as in 5000:1,1:500: where their time goes"},
    {"temperature", 0, MT_OPT_DOUBLE, MT_GROUP_MEASURE, C(BENCH), "T", "0", 0, 100, false, NULL,
     "tokens are sampled at this temperature; 0 is greedy"},
    {"top-p", 0, MT_OPT_DOUBLE, MT_GROUP_MEASURE, C(BENCH), "P", "1", 0, 1, true, NULL,
     "and from the smallest set of probability P"},
    {"collectives", 0, MT_OPT_FLAG, MT_GROUP_MEASURE, C(BENCH), NULL, NULL, 0, 0, false, NULL,
     "measure the exchange between ranks alone, by size"},
    {"tokens", 0, MT_OPT_INT, MT_GROUP_MEASURE, C(TRACE), "K", "1", 1, 100000, false, NULL,
     "steps to show"},
    {"temperatures", 0, MT_OPT_DOUBLES, MT_GROUP_MEASURE, C(TRACE), "LIST", NULL, 0, 100, false,
     NULL, "the same step at several temperatures, comma-separated"},
    {"attention", 0, MT_OPT_FLAG, MT_GROUP_MEASURE, C(TRACE), NULL, NULL, 0, 0, false, NULL,
     "which earlier tokens the heads of each layer read"},
    {"top", 0, MT_OPT_INT, MT_GROUP_MEASURE, C(TRACE), "N", "10", 1, 100000, false, NULL,
     "candidates to show"},

    {"model", 'm', MT_OPT_PATH, MT_GROUP_MODEL, ALL, "PATH", NULL, 0, 0, false, NULL,
     "a model directory or a .gguf file (default: the small model that comes with Mutirão)"},
    {"ctx", 0, MT_OPT_INT, MT_GROUP_MODEL, RANKED | C(INSPECT), "N", NULL, 1, BIG, false, NULL,
     "tokens that the KV cache holds (default: the model's context, or what memory allows)"},
    {"kv-type", 0, MT_OPT_CHOICE, MT_GROUP_MODEL, RANKED | C(INSPECT), "TYPE", "f16", 0, 0, false,
     "f16|f32|q8", "element type of the KV cache"},
    {"activations", 0, MT_OPT_CHOICE, MT_GROUP_MODEL, RANKED | C(INSPECT), "TYPE", "int16", 0, 0,
     false, "int16|int8",
     "what quantized weights are multiplied with; int8 halves the integer work and costs accuracy; "
     "f32, f16 and bf16 weights do not see it"},
    {"no-kv-cache", 0, MT_OPT_FLAG, MT_GROUP_MODEL, C(GENERATE), NULL, NULL, 0, 0, false, NULL,
     "compute everything again at each step: the same bytes, more slowly"},
    {"chunk", 0, MT_OPT_INT, MT_GROUP_MODEL, RANKED, "C", NULL, 1, BIG, false, NULL,
     "prompt tokens computed together (default: chosen for speed; never changes the result)"},
    {"max-memory", 0, MT_OPT_SIZE, MT_GROUP_MODEL, RANKED | C(INSPECT), "BYTES", NULL, 0, 0, false,
     NULL, "memory that one rank may take, with K, M, G or T (default: what is free)"},
    {"pack-cache", 0, MT_OPT_PATH, MT_GROUP_MODEL, RANKED, "DIR", NULL, 0, 0, false, NULL,
     "keep the packed weights of each rank there and start from them the next time"},
    {"backend", 0, MT_OPT_CHOICE, MT_GROUP_MODEL, RANKED, "NAME", "exact", 0, 0, false,
     "exact|openblas",
     "openblas: its results may differ in the last bits between runs on different ranks"},
    {"isa", 0, MT_OPT_CHOICE, MT_GROUP_MODEL, RANKED, "NAME", "auto", 0, 0, false,
     "auto|ref|avx2|avxvnni|avx512|avx512vnni|neon|neondot",
     "instruction set of the kernels; the result is the same for each"},

    {"ranks", 'n', MT_OPT_INT, MT_GROUP_RANKS, RANKED | C(INSPECT), "N", NULL, 1, 65536, false,
     NULL, "processes that share the model (default: one per NUMA domain; inspect: 1)"},
    {"nodes", 0, MT_OPT_INT, MT_GROUP_RANKS, C(INSPECT), "K", "1", 1, 65536, false, NULL,
     "machines that the ranks are spread over, in contiguous runs; the first rank of each takes "
     "more"},
    {"threads", 't', MT_OPT_INT, MT_GROUP_RANKS, RANKED, "N", NULL, 1, 4096, false, NULL,
     "threads of each rank (default: its share of the cores)"},
    {"hostfile", 0, MT_OPT_PATH, MT_GROUP_RANKS, RANKED, "FILE", NULL, 0, 0, false, NULL,
     "hosts to run on, one a line, as mpirun reads them"},
    {"via", 0, MT_OPT_CHOICE, MT_GROUP_RANKS, RANKED, "PROGRAM", NULL, 0, 0, false, "mpirun|srun",
     "what starts the ranks (default: mpirun; nothing for one rank)"},

    {"reduce-inside", 0, MT_OPT_CHOICE, MT_GROUP_RANKS, RANKED, "NAME", "auto", 0, 0, false,
     "auto|one-phase|two-phase", "how the ranks of a node add up; the result is the same for each"},
    {"reduce-between", 0, MT_OPT_CHOICE, MT_GROUP_RANKS, RANKED, "NAME", "auto", 0, 0, false,
     "auto|doubling|scatter",
     "how nodes add up: whole sums again and again, or a piece each; the result is the same"},

    {"config", 0, MT_OPT_PATH, MT_GROUP_GENERAL, ALL, "FILE", NULL, 0, 0, false, NULL,
     "read options from a YAML file; the command line wins"},
    {"json", 0, MT_OPT_FLAG, MT_GROUP_GENERAL,
     C(GENERATE) | C(SCORE) | C(TOKENIZE) | C(INSPECT) | C(BENCH) | C(TRACE), NULL, NULL, 0, 0,
     false, NULL, "print one JSON object for programs"},
    {"verbose", 'v', MT_OPT_COUNT, MT_GROUP_GENERAL, ALL, NULL, NULL, 0, 0, false, NULL,
     "say more on standard error; -vv says all"},
    {"quiet", 'q', MT_OPT_FLAG, MT_GROUP_GENERAL, ALL, NULL, NULL, 0, 0, false, NULL,
     "say nothing but errors"},
    {"help", 'h', MT_OPT_FLAG, MT_GROUP_GENERAL, ALL, NULL, NULL, 0, 0, false, NULL,
     "print this and exit"},
    {"version", 0, MT_OPT_FLAG, MT_GROUP_GENERAL, ALL, NULL, NULL, 0, 0, false, NULL,
     "print the version and exit"},
};
_Static_assert(sizeof rows / sizeof rows[0] <= MT_OPT_MAX_ROWS, "MT_OPT_MAX_ROWS is too small");

const mt_opt_rule mt_opt_rules[] = {
    {C(GENERATE) | C(TRACE), MT_RULE_ONE_OF, "prompt prompt-file ids"},
    {C(SCORE), MT_RULE_ONE_OF, "prompt file ids"},
    {C(LOGITS), MT_RULE_ONE_OF, "ids"},
    {C(GENERATE) | C(TRACE), MT_RULE_AT_MOST, "chat ids"},
    {C(GENERATE), MT_RULE_AT_MOST, "echo json"},
    {C(GENERATE) | C(TRACE), MT_RULE_NEEDS, "system chat"},
    {C(GENERATE) | C(TRACE) | C(TOKENIZE), MT_RULE_NEEDS, "chat-template chat"},
    {C(TOKENIZE), MT_RULE_AT_MOST, "decode chat"},
    {C(TOKENIZE), MT_RULE_AT_MOST, "decode stats"},
    {C(TOKENIZE), MT_RULE_AT_MOST, "decode explain"},
    {C(TOKENIZE), MT_RULE_AT_MOST, "chat stats"},
    {C(TOKENIZE), MT_RULE_AT_MOST, "chat explain"},
    {C(TOKENIZE), MT_RULE_AT_MOST, "decode no-special"},
    {C(TOKENIZE), MT_RULE_AT_MOST, "decode no-parse-special"},
    {C(TOKENIZE), MT_RULE_AT_MOST, "chat no-special"},
    {C(TOKENIZE), MT_RULE_AT_MOST, "chat no-parse-special"},
    {C(TOKENIZE), MT_RULE_NEEDS, "json stats explain"},
    {C(TRACE), MT_RULE_AT_MOST, "temperature temperatures"},
    {C(BENCH), MT_RULE_AT_MOST, "batch shapes collectives"},
    {C(BENCH), MT_RULE_AT_MOST, "shapes prompt"},
    {C(BENCH), MT_RULE_AT_MOST, "shapes generate"},
    {ALL, MT_RULE_AT_MOST, "quiet verbose"},
};
const size_t mt_opt_n_rules = sizeof mt_opt_rules / sizeof mt_opt_rules[0];

const mt_opt_row *mt_opt_rows(size_t *n) {
  *n = sizeof rows / sizeof rows[0];
  return rows;
}

const char *mt_opt_command_name(mt_command c) {
  return c < MT_CMD_COUNT ? mt_opt_commands[c].name : "";
}

bool mt_opt_command_needs_ranks(mt_command c) {
  return c < MT_CMD_COUNT && mt_opt_commands[c].needs_ranks;
}
