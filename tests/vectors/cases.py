"""Texts that make.py feeds to the reference: prompts for the model, strings for the tokenizer.

Only code points that Unicode 14 (Python 3.11's and PCRE2 10.42's version) assigns are used, except in
NEWER, whose code points came later: a tokenizer on older Unicode tables classes those differently.
"""

import random
import unicodedata

# ---- prompts for the model -------------------------------------------------------------------------

SHORT = "The capital of France is Paris. The capital of Italy is"

CHAT = (
    "<|im_start|>system\n"
    "You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
    "<|im_start|>user\n"
    "What is gravity? Answer in three sentences.<|im_end|>\n"
    "<|im_start|>assistant\n"
)

KOREAN = (
    "한국의 가을은 하늘이 높고 맑아서 산책하기에 좋은 계절이다. "
    "아침에는 안개가 강가를 덮고, 낮에는 따뜻한 햇살이 단풍잎 위로 쏟아진다. "
    "어제는 친구와 함께 북한산에 올라가 서울 시내를 내려다보았다. "
    "내려오는 길에 먹은 국수 한 그릇은 3,500원이었지만 무엇보다 맛있었다."
)

CODE = '''\
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A growable ring buffer of 64-bit integers. */
struct ring {
	long long *slot;
	size_t head, count, capacity;
};

static int ring_grow(struct ring *r)
{
	size_t wider = r->capacity ? r->capacity * 2 : 16;
	long long *slot = malloc(wider * sizeof *slot);

	if (!slot)
		return -1;
	for (size_t i = 0; i < r->count; i++)
		slot[i] = r->slot[(r->head + i) % r->capacity];
	free(r->slot);
	r->slot = slot;
	r->head = 0;
	r->capacity = wider;
	return 0;
}

int ring_push(struct ring *r, long long value)
{
	if (r->count == r->capacity && ring_grow(r) < 0)
		return -1;
	r->slot[(r->head + r->count++) % r->capacity] = value;
	return 0;
}

int ring_pop(struct ring *r, long long *value)
{
'''


def prompts(license_text):
    """(name, text, special tokens in the text count as such, also decode greedily)"""
    return [
        ("short", SHORT, False, True),
        ("chat", CHAT, True, True),
        ("korean", KOREAN, False, False),
        ("code", CODE, False, True),
        ("license", license_text, False, False),
    ]


# ---- strings for the tokenizer ---------------------------------------------------------------------

# Bytes that have no token in SmolLM2's vocabulary; the reference drops them without a trace.
LOST = bytes([0x04, 0x06, 0x13, 0x14, 0x16, 0x1D, 0xC0, 0xC1, 0xF1, 0xF2]) + bytes(range(0xF5, 0x100))

TEXTS = [
    # plain
    "", "a", " ", "\n", "Hello", "Hello world", " Hello world", "Hello, world!", "Hello world ", " Hello  world  ",
    "The quick brown fox jumps over the lazy dog.", "THE QUICK BROWN FOX", "tHe QuIcK bRoWn", "naïve café résumé",
    "Straße, Ångström, Øresund, Łódź, İstanbul", "don't stop; it's John's, they're we've I'm you'll he'd",
    "DON'T IT'S THEY'RE WE'VE I'M YOU'LL HE'D", "'s 't 're 've 'm 'll 'd 'S 'LL", "'tis 'twas ''' 'sss 'revel 'llama",
    " 's 'll", "it’s they’re", "rock'n'roll o'clock 'em", "x's' 'x' \"y\"", "a'b'c'd'e", "1's 2'll 3're",
    # digits
    "0", "42", "1234567890", " 1", "  1", "   1", "a 1", "a  1", "a   1", "a   b", "a1b2c3", "1 2 3", "1  2   3",
    "\t1", "\n1", " \n1", "3.14159", "1,000,000.00", "-1e-10", "0x1F", "v1.2.3-rc4", "2024-12-31T23:59:59Z", "€1 £2 ¥3",
    "50%", "1st 2nd 3rd", "½ ¼ ¾ ⅓", "1½", "x² + y³ = z⁴", "H₂O", "Ⅷ ⅳ Ⅻ", "第Ⅷ章", "①②③ ⑳ ㊿", "٠١٢٣٤٥٦٧٨٩", "۱۲۳",
    "०१२३", "๑๒๓", "〇一二三", "〡〢〣", "１２３", "𝟏𝟐𝟑", "𐄇𐄈", "🄀🄁", "🔟 1️⃣ 2️⃣", "৳৫০০", "༡༢༣", "፩፪፫", "万1億2", "ͲⅠⅠⅠͳ", "  ½", " Ⅷ ²",
    # spaces
    "  ", "   ", "    ", "     ", "        ", " " * 15, " " * 16, " " * 17, " " * 31, " " * 33, " " * 64, " " * 100,
    " " * 255, " x", "  x", "   x", "    x", "     x", " " * 15 + "x", " " * 16 + "x", "x ", "x  ", "x   ", "x    y", "x     y",
    "\t", "\t\t", "\t\t\t", "\t\t\t\t", "\tx", "\t\tx", " \tx", "\t x", "x\t", "x\ty", "x \t y", "\t \t \t",
    "\n\n", "\n\n\n", "\n\n\n\n", "\nx", "\n\nx", "x\n", "x\n\n", "x\ny", "x\n\ny", "x \n y", "x \n\n  y", "\n x", "\n  x",
    " \n", "  \n", "\n ", "\n \n ", "\r", "\r\n", "\r\n\r\n", "x\r\ny", "x\r\n\r\ny\r\n", "\r\r", "x\ry", "\n\r", "\v", "\f", "x\vy\fz",
    "a\u00a0b", "\u00a0", "\u00a0\u00a0x", " \u00a0 x", "a\u3000b", "\u3000", "\u3000\u3000\u3000x", "a\u2028b", "a\u2029b\u2029\u2029",
    "a\u0085b", "\u0085", "\u0085\u0085x", "a\u1680b", "a\u2000b\u2003c\u2009d\u200ae", "\u2003\u2003x", "a\u202fb\u205fc",
    "a\u180eb", "\u180e", ".\u180e.", " \u180e ", "a  \u180e b", "\n\n\u180e\n", "a\u200bb", "\u200b", " \u200b x", "a\ufeffb", "\ufeffx", "a\u2060b", "a\u200cb\u200dc",
    ".\u00a0.", "1\u00a0000", "!\u3000?", "\x1c\x1d\x1e\x1f", "a\x1cb", "a\x1fb", "\x1f x",
    # punctuation
    ".", "..", "...", "....", "…", "!!!", "?!?!", "--", "---", "—–", "()", "(x)", "[x]{y}<z>", "a.b", "a . b", "a.  b", "$x", " $x", "  $x",
    "#!@%^&*", "«quote» „quote“ ‘q’ “q”", "©®™", "a_b __init__ _x_", "a/b\\c", "~~~", "```", "``` ```", "| a | b |", "=====" * 9, "-" * 80,
    "." * 200, "° ± × ÷ ≤ ≥ ≠ ∞ ∑ ∫ √", "→ ← ⇒ ∀x∃y", "█▓▒░ ┌─┐", "$100 #1 @me",
    # scripts
    "안녕하세요", "안녕하세요 세계!", "대한민국의 수도는 서울이다.", "한글 한글", "ᄒᆞᆫ글", "ㅋㅋㅋ ㅎㅎ ㅠㅠ", "가각힣", "뷁", "가 나  다   라",
    unicodedata.normalize("NFD", "한글 자모"), "中文", "你好，世界！", "中华人民共和国", "日本語のテキスト", "カタカナ ー ｶﾀｶﾅ", "東京都は日本の首都です。", "𠮷野家 𩸽",
    "繁體字與简体字", "مرحبا بالعالم", "اللُّغَةُ العَرَبِيَّة", "سلام دنیا ۱۴۰۲", "שלום עולם", "שָׁלוֹם", "สวัสดีชาวโลก", "ภาษาไทย ๒๕๖๗", "नमस्ते दुनिया", "क्षत्रिय १२३",
    "বাংলা ভাষা", "தமிழ்", "ಕನ್ನಡ", "မြန်မာ", "ភាសាខ្មែរ", "བོད་ཡིག", "ქართული", "Հայերեն", "Ελληνικά ἄνθρωπος", "Русский язык", "Українська ї є ґ",
    "አማርኛ", "ᏣᎳᎩ", "ᠮᠣᠩᠭᠣᠯ", "ꦗꦮ", "𐍈𐌰𐌹", "𓀀𓁐", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢", "ǅ ǈ ŉ ß ﬁ ﬄ", "Tiếng Việt có dấu", "Čeština ěščřžýáíé", "ʻokina ʼ ˈ ː",
    # combining marks
    "e\u0301", "cafe\u0301", "a\u0300\u0301\u0302", "\u0301", " \u0301", "\u0301\u0301", "x\u0301y", "1\u0301", "Z͑ͫ̓ͪ̂a̴̵̞l̩͙g̲o", "n\u0303o \u0303o", "a\u20dd 1\u20e3",
    # emoji
    "😀", "😀😀😀", "hi 😀!", "👍🏽", "👨‍👩‍👧‍👦", "👩🏿‍🚀", "🏳️‍🌈", "🇰🇷", "🇰🇷🇺🇸🇯🇵", "❤️", "❤", "☺︎", "🧑‍💻 codes", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "  🚀  🚀", "🫠🫡", "🀄🂡", "👁️‍🗨️",
    # code and urls
    "int main(void) { return 0; }\n", "for (int i = 0; i < 10; i++)\n\tsum += a[i];\n", "def f(x):\n    return x ** 2  # square\n",
    "if x:\n        y = 1\n    else:\n        y = 22\n", "#define MAX(a, b) ((a) > (b) ? (a) : (b))", "SELECT * FROM t WHERE id='1';--", "<div class=\"a b\">&nbsp;</div>",
    "{\"key\": [1, 2.5, null, true], \"s\": \"\\u00e9\\n\"}", "printf(\"%5.2f\\n\", x);", "a->b.c[d]::e<f>()", "let v: Vec<&'static str> = vec![];", "x = y if z else w;;",
    "$ ls -la | grep '^d' > /dev/null 2>&1", "https://example.com/a/b?c=d&e=%20f#g", "http://user:pw@host:8080/~x/index.html", "me@example.org", "C:\\Users\\x\\file.txt",
    "camelCaseWord snake_case_word kebab-case-word SCREAMING_CASE", "\\frac{a}{b} \\alpha_1^2", "<|", "|>", "<||>", "//// TODO(me): fix!!!", "\t\tif (a)\r\n\t\t\treturn;\r\n",
    "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-old\n+new\n", "#" * 50 + "\n", "lorem\n\n\n\n   ipsum\t\t\n dolor",
    # NUL and control characters
    "\0", "a\0b", "\0\0\0", " \0 ", "\x01\x02\x03", "\x07\x08", "\x1b[31mred\x1b[0m", "\x7f", "\x80\x81", "a\x00 b\x00 c", "".join(map(chr, range(32))), "".join(map(chr, range(0x7F, 0xA1))),
    # characters with bytes that have no token: they vanish, and their neighbours within one piece then touch
    "\x04", "a\x04b", ".\x04.", "!\x06!\x13=\x14=", "\x16", "a \x04 b", " \x04", "\x04\x04\x04", "-\x1d-\x1d-", "/\x04/\x04/", "(\x06)", "\U00040000", "a\U00040000b",
    "\U0007fffd!", "\U00080000\U000bffff", ".\U00040000.", "\U000f0000\U0010ffff", "x \U00050000y",
    # non-characters, private use, tags
    "\ufffd", "\ufffe\uffff", "\ue000\uf8ff", "a\ufffdb", " \ufffd", "\U0001fffe", "\U000e0041\U000e007f", "\ufdd0",
    # long words
    "a" * 300, "ab" * 300, "the" * 200, "Pneumonoultramicroscopicsilicovolcanoconiosis", "x" * 1000, "aAbB" * 64, "é" * 200, "가" * 150, "😀" * 50, "!" * 300, "0" * 100,
    " " * 40 + "\n" + " " * 40 + "x", "\n" * 50, "\t" * 40, "internationalization" * 20, "\u00a0" * 20 + "x", " a" * 100,
]

SPECIAL_TEXTS = [
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<repo_name>", "<reponame>", "<file_sep>", "<gh_stars>", "<jupyter_script>", "<empty_output>",
    "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n", "a<|im_end|>b", "a <|im_end|> b", "a  <|im_end|>  b", "\n<|im_end|>\n", "<|im_end|><|im_end|>",
    "<|im_start|><|endoftext|>", "<<|im_end|>>", "<|im_end|", "<|IM_END|>", "<| im_end |>", "<|im_end|>1 2<|im_end|>", "x<|im_start|", "<|im_<|im_end|>end|>",
    "1<|im_start|>2", "'s<|im_end|>'s", "안녕<|im_end|>세계", " <file_sep>a.c\n#include <stdio.h>\n<file_sep>", "<filename>x<issue_start>y<issue_comment>z<issue_closed>",
    "<jupyter_start><jupyter_text>t<jupyter_code>c<jupyter_output>o", "\0<|im_end|>\0", "<|endoftext|> <|endoftext|>", "",  "plain text, no tokens 12",
]

# (Unicode version that first assigned the code points, text)
NEWER = [
    (15, "a\U00011f04b \U00011f04"), (15, "1\U00011f502 \U00011f51"), (15, "x\U0001e4d0\U0001e4f0y"), (15, "\u4e2d\U00031350\U000323af"),
    (16, "b\u1c89\u1c8a \ua7cb"), (16, "b\U000105c0\U000105c1"), (16, "5\U00016d70\U00016d71.\U0001ccf0"), (16, "\U00010d40\U00010d4a"), (16, "'\U00016100'\U00013460"),
    (15, "a  \U00011f50"), (15, "\n\n\U0001e4f9x"), (16, "a   \U00016d70"), (16, "\t\t\U0001ccf9"), (17, "a  \U00011de0"), (17, "\n\n\U00016ff6"),
    (17, "a\U00011de0\U00011de9b"), (17, ".\U00016ff4\U00016ff5."), (17, " \U00011de1 \U00016ff6"),
]


def random_texts(rng):
    """Random strings: of the repertoire that TEXTS uses, of all assigned code points, and of troublesome ones."""
    pool = "".join(TEXTS)
    assigned = [chr(c) for c in range(0x110000) if unicodedata.category(chr(c)) not in ("Cn", "Cs")]
    tricky = "  \t\n\r'sdtm.,!0123aZé가ー½²\u00a0\u3000\u0301\u200d\u180e\u0085\x04😀"
    for _ in range(40):
        yield "".join(rng.choice(tricky) for _ in range(rng.randrange(1, 60)))
    for _ in range(30):
        yield "".join(rng.choice(pool) for _ in range(rng.randrange(1, 60)))
    for _ in range(30):
        yield "".join(rng.choice(assigned) for _ in range(rng.randrange(1, 30)))


def garbage(rng):
    """Byte strings that are not UTF-8: handmade ones for each kind of fault, then random ones."""
    yield from (
        b"\x80", b"\xbf\xbf", b"\xc2", b"a\xc2b", b"\xc0\x80", b"\xc1\xbf", b"\xe0\x80\x80", b"\xe0\x9f\xbf", b"\xe1\x80", b"\xe1\x80b", b"\xe2\x82", b"\xe2\x28\xa1",
        b"\xed\xa0\x80", b"\xed\xbf\xbf", b"\xed\xa0\xbd\xed\xb8\x80", b"\xf0\x80\x80\x80", b"\xf0\x8f\xbf\xbf", b"\xf0\x9f", b"\xf0\x9f\x98", b"\xf0\x9f\x98x", b"\xf0\x9f\x98\xf0\x9f\x98\x80",
        b"\xf1\x80\x80\xe1\x80\xc2", b"\xf4\x90\x80\x80", b"\xf5\x80\x80\x80", b"\xf8\x88\x80\x80\x80", b"\xfe\xff", b"\xff", b"a\xffb", b"\xff\xff\xff", b" \xff ", b"caf\xe9 au lait",
        b"\xef\xbb\xbfBOM", b"\xef\xbb", b"\xff\xfeh\x00i\x00", b"\xea\xb0\x80\xea\xb0", b"\xe4\xb8\xad\xe6\x96", b"\x00\xff\x00", b"\n\xff\n", b"1\xff2",
    )
    for _ in range(25):
        yield rng.randbytes(rng.randrange(1, 50))
    for _ in range(15):  # good text with a few bytes spoilt
        text = bytearray(rng.choice([KOREAN, CODE, CHAT, "".join(TEXTS[300:330])]).encode()[:120])
        for _ in range(rng.randrange(1, 6)):
            text[rng.randrange(len(text))] = rng.randrange(256)
        yield bytes(text)


def encode_cases(seed):
    """Dicts with the input bytes, the special flag and, for some, the Unicode version they need."""
    rng = random.Random(seed)
    for text in TEXTS:
        yield {"bytes": text.encode(), "special": False}
    for text in SPECIAL_TEXTS:
        yield {"bytes": text.encode(), "special": False}
        yield {"bytes": text.encode(), "special": True}
    for text in random_texts(rng):
        yield {"bytes": text.encode(), "special": False}
    for data in garbage(rng):
        yield {"bytes": data, "special": rng.random() < 0.25}
    for version, text in NEWER:
        yield {"bytes": text.encode(), "special": False, "unicode": version}


def decode_ids(seed, tokens, control, encode):
    """Id lists to decode: every byte token alone, cut characters, texts, random ids, control tokens."""
    rng = random.Random(seed)
    ordinary = [i for i in range(len(tokens)) if i not in control]
    yield []
    for i in ordinary:
        if len(tokens[i]) == 1:
            yield [i]
    for text in ("가", "😀", "안녕하세요 세계!", "é中", KOREAN[:40], CODE[:200], SHORT, "👨‍👩‍👧‍👦"):
        ids = encode(text)
        yield ids
        for cut in range(1, min(len(ids), 8)):
            yield ids[:cut]
            yield ids[cut:]
    for _ in range(20):
        yield [rng.choice(ordinary) for _ in range(rng.randrange(1, 120))]
    for i in sorted(control):
        yield [i]
    yield [rng.choice(ordinary), min(control), rng.choice(ordinary), max(control)]
