/* patterns.c - see patterns.h. Each pattern is that of the models' tokenizer.json files, its classes spelled out.
 *
 * The classes are those of the reference (Hugging Face tokenizers 0.23: Unicode 16, and Rust's is_numeric of Unicode
 * 17), whatever Unicode version the PCRE2 at hand knows: what came after Unicode 14, its version on the oldest system
 * supported, is spelled out. \s is not used: PCRE2's takes in U+180E, which is no white space. */
#include "patterns.h"

#include <string.h>

#define NEW_UPPER \
    "\\x{1C89}\\x{A7CB}\\x{A7CC}\\x{A7DA}\\x{A7DC}\\x{10D50}-\\x{10D65}"
#define NEW_LOWER \
    "\\x{1C8A}\\x{A7CD}\\x{A7DB}\\x{10D70}-\\x{10D85}\\x{1DF25}-\\x{1DF2A}"
#define NEW_MODIFIERS \
    "\\x{10D4E}\\x{10D6F}\\x{16D40}-\\x{16D42}\\x{16D6B}\\x{16D6C}\\x{1E030}-\\x{1E06D}\\x{1E4EB}"
#define NEW_OTHERS \
    "\\x{105C0}-\\x{105F3}\\x{10D4A}-\\x{10D4D}\\x{10D4F}\\x{10EC2}-\\x{10EC4}\\x{1123F}\\x{11240}" \
    "\\x{11380}-\\x{11389}\\x{1138B}\\x{1138E}\\x{11390}-\\x{113B5}\\x{113B7}\\x{113D1}\\x{113D3}" \
    "\\x{11BC0}-\\x{11BE0}\\x{11F02}\\x{11F04}-\\x{11F10}\\x{11F12}-\\x{11F33}\\x{1342F}\\x{13441}-\\x{13446}" \
    "\\x{13460}-\\x{143FA}\\x{16100}-\\x{1611D}\\x{16D43}-\\x{16D6A}\\x{18CFF}\\x{1B132}\\x{1B155}" \
    "\\x{1E4D0}-\\x{1E4EA}\\x{1E5D0}-\\x{1E5ED}\\x{1E5F0}\\x{2B739}\\x{2EBF0}-\\x{2EE5D}\\x{31350}-\\x{323AF}"
#define NEW_MARKS \
    "\\x{897}\\x{CF3}\\x{ECE}\\x{10D69}-\\x{10D6D}\\x{10EFC}-\\x{10EFF}\\x{11241}\\x{113B8}-\\x{113C0}\\x{113C2}" \
    "\\x{113C5}\\x{113C7}-\\x{113CA}\\x{113CC}-\\x{113D0}\\x{113D2}\\x{113E1}\\x{113E2}\\x{11F00}\\x{11F01}" \
    "\\x{11F03}\\x{11F34}-\\x{11F3A}\\x{11F3E}-\\x{11F42}\\x{11F5A}\\x{13440}\\x{13447}-\\x{13455}" \
    "\\x{1611E}-\\x{1612F}\\x{1E08F}\\x{1E4EC}-\\x{1E4EF}\\x{1E5EE}\\x{1E5EF}"
#define NEW_NUMBERS \
    "\\x{10D40}-\\x{10D49}\\x{116D0}-\\x{116E3}\\x{11BF0}-\\x{11BF9}\\x{11F50}-\\x{11F59}\\x{16130}-\\x{16139}" \
    "\\x{16D70}-\\x{16D79}\\x{1CCF0}-\\x{1CCF9}\\x{1D2C0}-\\x{1D2D3}\\x{1E4F0}-\\x{1E4F9}\\x{1E5F1}-\\x{1E5FA}"
#define NEW_PUNCTUATION \
    "\\x{1B4E}\\x{1B4F}\\x{1B7F}\\x{10D6E}\\x{113D4}\\x{113D5}\\x{113D7}\\x{113D8}\\x{11B00}-\\x{11B09}\\x{11BE1}" \
    "\\x{11F43}-\\x{11F4F}\\x{16D6D}-\\x{16D6F}\\x{1E5FF}"
#define NEW_SYMBOLS \
    "\\x{2427}-\\x{2429}\\x{2FFC}-\\x{2FFF}\\x{31E4}\\x{31E5}\\x{31EF}\\x{10D8E}\\x{10D8F}\\x{1CC00}-\\x{1CCEF}" \
    "\\x{1CD00}-\\x{1CEB3}\\x{1F6DC}\\x{1F774}-\\x{1F776}\\x{1F77B}-\\x{1F77F}\\x{1F7D9}\\x{1F8B2}-\\x{1F8BB}" \
    "\\x{1F8C0}\\x{1F8C1}\\x{1FA75}-\\x{1FA77}\\x{1FA87}-\\x{1FA89}\\x{1FA8F}\\x{1FAAD}-\\x{1FAAF}" \
    "\\x{1FABB}-\\x{1FABF}\\x{1FAC6}\\x{1FACE}\\x{1FACF}\\x{1FADA}-\\x{1FADC}\\x{1FADF}\\x{1FAE8}\\x{1FAE9}" \
    "\\x{1FAF7}\\x{1FAF8}\\x{1FBCB}-\\x{1FBEF}"
#define NEWER_NUMBERS "\\x{11DE0}-\\x{11DE9}\\x{16FF4}-\\x{16FF6}"

/* Inside brackets. UPPER and LOWER are what a word may begin and end with where case ends words: letters without case,
 * and marks, are both. */
#define LETTER "\\p{L}" NEW_UPPER NEW_LOWER NEW_MODIFIERS NEW_OTHERS
#define UPPER "\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}" NEW_UPPER NEW_MODIFIERS NEW_OTHERS NEW_MARKS
#define LOWER "\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}" NEW_LOWER NEW_MODIFIERS NEW_OTHERS NEW_MARKS
#define MARK "\\p{M}" NEW_MARKS
#define NUMBER "\\p{N}" NEW_NUMBERS
#define DIGIT NUMBER NEWER_NUMBERS
#define PUNCTUATION "\\p{P}" NEW_PUNCTUATION
#define SYMBOL "\\p{S}" NEW_SYMBOLS
#define SPACE                                                                                                          \
    "\\x{09}-\\x{0D}\\x{20}\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}"

/* Of a run of white space the last stays with what follows. */
#define BLANKS "[" SPACE "]+(?![^" SPACE "])|[" SPACE "]+"
/* Blanks and line ends up to the last line end. */
#define LINES "[" SPACE "]*[\\r\\n]+|"

/* GPT-2's: English endings; words, numbers and the rest, each with one space in front. */
#define ENDINGS "'(?:[sdmt]|ll|ve|re)|"
static const char GPT_2[] = ENDINGS " ?[" LETTER "]+| ?[" NUMBER "]+| ?[^" SPACE LETTER NUMBER "]+|" BLANKS;

/* Two steps of the reference in one: every digit is cut out first, then GPT-2's pattern works on the texts between. For
 * that pattern a text ends before a digit, so a run of white space there keeps its last. */
static const char SMOLLM[] = "[" DIGIT "]|" ENDINGS " ?[" LETTER "]+| ?[^" SPACE LETTER DIGIT "]+|"
                             "[" SPACE "]+(?![^" SPACE DIGIT "])|[" SPACE "]+";

/* GPT-4's (cl100k) and its relatives: words of `word` with any one character in front, numbers as `number` groups them,
 * line ends by themselves or behind punctuation. */
#define ANY_CASE "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define GPT_4(word, number)                                                                                            \
    ANY_CASE "|[^\\r\\n" LETTER NUMBER "]?[" word "]+|" number "| ?[^" SPACE word NUMBER "]+[\\r\\n]*|" LINES BLANKS
#define NUMBERS_OF_3 "[" NUMBER "]{1,3}"
#define NUMBERS_OF_1 "[" NUMBER "]"
static const char GPT_4_BY_3[] = GPT_4(LETTER, NUMBERS_OF_3);
static const char GPT_4_BY_1[] = GPT_4(LETTER, NUMBERS_OF_1);
static const char GPT_4_MARKS[] = GPT_4(LETTER MARK, NUMBERS_OF_1);

/* GPT-4o's (o200k) and Tekken: a capital begins a new word. */
#define CASED(ending, number)                                                                                          \
    "[^\\r\\n" LETTER NUMBER "]?[" UPPER "]*[" LOWER "]+" ending "|"                                                   \
    "[^\\r\\n" LETTER NUMBER "]?[" UPPER "]+[" LOWER "]*" ending "|"                                                   \
    number "| ?[^" SPACE LETTER NUMBER "]+[\\r\\n/]*|" LINES BLANKS
static const char GPT_4O[] = CASED(ANY_CASE "?", NUMBERS_OF_3);
static const char TEKKEN[] = CASED("", NUMBERS_OF_1);

/* DeepSeek's sequences. The first model spells its letters out, those with upper and lower case, as they stand here.
 * Blanks that are not at a text's end are skipped as a whole, so that looking for those at the end takes one pass. */
#define CASED_LETTERS \
    "A-Za-z\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}\\x{1C4}-\\x{293}" \
    "\\x{295}-\\x{2AF}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37B}-\\x{37D}\\x{37F}\\x{386}\\x{388}-\\x{38A}\\x{38C}" \
    "\\x{38E}-\\x{3A1}\\x{3A3}-\\x{3F5}\\x{3F7}-\\x{481}\\x{48A}-\\x{52F}\\x{531}-\\x{556}\\x{10A0}-\\x{10C5}" \
    "\\x{13A0}-\\x{13F5}\\x{13F8}-\\x{13FD}\\x{1C90}-\\x{1CBA}\\x{1CBD}-\\x{1CBF}\\x{1D00}-\\x{1D2B}" \
    "\\x{1D6B}-\\x{1D77}\\x{1D79}-\\x{1D9A}\\x{1E00}-\\x{1F15}\\x{1F18}-\\x{1F1D}\\x{1F20}-\\x{1F45}" \
    "\\x{1F48}-\\x{1F4D}\\x{1F50}-\\x{1F57}\\x{1F59}\\x{1F5B}\\x{1F5D}\\x{1F5F}-\\x{1F7D}\\x{1F80}-\\x{1FB4}" \
    "\\x{1FB6}-\\x{1FBC}\\x{1FBE}\\x{1FC2}-\\x{1FC4}\\x{1FC6}-\\x{1FCC}\\x{1FD0}-\\x{1FD3}\\x{1FD6}-\\x{1FDB}" \
    "\\x{1FE0}-\\x{1FEC}\\x{1FF2}-\\x{1FF4}\\x{1FF6}-\\x{1FFC}\\x{2102}\\x{2107}\\x{210A}-\\x{2113}\\x{2115}" \
    "\\x{2119}-\\x{211D}\\x{2124}\\x{2126}\\x{2128}\\x{212A}-\\x{212D}\\x{212F}-\\x{2134}\\x{2139}" \
    "\\x{213C}-\\x{213F}\\x{2145}-\\x{2149}\\x{214E}\\x{2183}\\x{2184}\\x{2C00}-\\x{2C7B}\\x{2C7E}-\\x{2CE4}" \
    "\\x{2CEB}-\\x{2CEE}\\x{2CF2}\\x{2CF3}\\x{A640}-\\x{A66D}\\x{A680}-\\x{A69B}\\x{A722}-\\x{A76F}" \
    "\\x{A771}-\\x{A787}\\x{A78B}-\\x{A78E}\\x{AB70}-\\x{ABBF}\\x{FB00}-\\x{FB06}\\x{FB13}-\\x{FB17}" \
    "\\x{FF21}-\\x{FF3A}\\x{FF41}-\\x{FF5A}\\x{10400}-\\x{1044F}\\x{104B0}-\\x{104D3}\\x{104D8}-\\x{104FB}" \
    "\\x{10C80}-\\x{10CB2}\\x{10CC0}-\\x{10CF2}\\x{118A0}-\\x{118DF}\\x{1E900}-\\x{1E943}"
#define LINE_END "[\\r\\n]"
#define ONE_DIGIT "[" DIGIT "]"
#define BLANKS_AT_END "[" SPACE "]++(*SKIP)\\z"
#define ASIAN "[\\x{4E00}-\\x{9FA5}\\x{800}-\\x{4E00}\\x{AC00}-\\x{D7FF}]+"
#define HAN_OR_KANA "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}]+"
#define PRINTED_ASCII "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~]"
static const char CASED_WORDS[] = "[" SPACE "]?[" CASED_LETTERS "]+";
static const char WORDS[] = "[" SPACE "]?[" LETTER "]+";
static const char PUNCTUATIONS[] = "[" SPACE "]?[" PUNCTUATION "]+";
static const char PRINTED[] = "[" SPACE "]?[!-/:-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}\\x{2018}-\\x{201F}"
                              "\\x{3000}-\\x{3002}]+";
static const char DEEPSEEK_3[] = PRINTED_ASCII "[A-Za-z]+|[^\\r\\n" LETTER PUNCTUATION SYMBOL "]?[" LETTER MARK "]+|"
                                 " ?[" PUNCTUATION SYMBOL "]+[\\r\\n]*|" LINES BLANKS;

/* Only what was compared with the reference stands here; names that llama.cpp cuts alike share a row. */
static const pattern_row ROWS[] = {
    {"smollm starcoder refact", {SMOLLM}},
    {"command-r", {SMOLLM}, .nfc = true},
    {"gpt-2 default phi-2", {GPT_2}}, /* "default" also where the file has no such key */
    {"mpt olmo", {GPT_2}, .nfc = true},
    {"llama-bpe llama3 llama-v3 falcon3", {GPT_4_BY_3}, .whole = true, .bos = true},
    {"glm4", {GPT_4_BY_3}, .whole = true},
    {"dbrx smaug-bpe chatglm-bpe", {GPT_4_BY_3}},
    {"qwen2 deepseek-r1-qwen megrez", {GPT_4_BY_1}, .nfc = true},
    {"qwen35", {GPT_4_MARKS}, .nfc = true},
    {"tekken", {TEKKEN}, .whole = true, .bos = true},
    {"gpt-4o llama4", {GPT_4O}, .whole = true},
    {"deepseek-llm", {LINE_END, CASED_WORDS, PRINTED, BLANKS_AT_END, ASIAN, ONE_DIGIT}},
    {"deepseek-coder", {LINE_END, WORDS, PUNCTUATIONS, ASIAN, ONE_DIGIT}},
    {"deepseek-v3", {NUMBERS_OF_3, HAN_OR_KANA, DEEPSEEK_3}},
};

/* Is the name one of these words? */
static bool among(const char *words, file_text name) {
    for (size_t n; *words; words += n + (words[n] == ' ')) {
        n = strcspn(words, " ");
        if (n == name.n && memcmp(words, name.at, n) == 0) return true;
    }
    return false;
}

const pattern_row *pattern_find(file_text name) {
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++)
        if (among(ROWS[i].names, name)) return &ROWS[i];
    return NULL;
}
