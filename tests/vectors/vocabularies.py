#!/usr/bin/env python3
"""Make vocabularies.json: small vocabularies of every kind the program knows, and the ids that outside references give.

    python3 -m venv venv && venv/bin/pip install tokenizers==0.23.3 sentencepiece==0.2.3 protobuf==7.36.2
    venv/bin/python tests/vectors/vocabularies.py --out tests/vectors

Run by hand, with Python 3.11 and the versions above; the output is committed and the tests read only that. The same
machine writes the same bytes again. Ids of byte-level BPE come from Hugging Face tokenizers, built as the models'
tokenizer.json files are: normalizer, sequence of splits, ignore_merges. Those of SentencePiece models come from
sentencepiece. README.md describes what is written.
"""

import argparse
import io
import json
import random
import re
import tempfile
import unicodedata
from collections import Counter
from pathlib import Path

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

import cases

SEED = 20251130
NORMAL, UNKNOWN, CONTROL, USER, BYTE = 1, 2, 3, 4, 6  # tokenizer.ggml.token_type

# ---- texts -----------------------------------------------------------------------------------------

MORE = [
    # what normal form C changes: composed, decomposed, marks out of order, singletons, exclusions, Korean letters
    "cafe\u0301 au lait", "e\u0301\u0323 \u1ec7 e\u0323\u0302", "a\u0323\u0301\u0307\u0323x", "\u212b\u2126\u212a", "\u0958\u09dc\u0b5c", "\u1112\u1161\u11ab\u1100\u1173\u11af",
    "\u1100\u1161\u1100\u1161\u11a8\uac00\u11a8", "\u30ab\u3099\u30cf\u309a\u304b\u3099", "\uf900\ufa10 \u2f00", "\u0344\u0340\u0341", "\u09c7\u09be \u0bc6\u0bbe \u0dd9\u0dcf\u0dca", "o\u0308\u0304 \u1e4e",
    "\u0300\u0316\u0301\u0317", "A\u030a\u0301B\u030a", "\ufb1d\ufb2a \u05e9\u05c1", "\u0f71\u0f72 \u0f73", "\u1e9b\u0323", "\U0001d15e \U0002f800", "\u2adc\u338f", "x\u0338= <\u0338 >\u0338",
    # cases and endings
    "don'\u017f DON'\u017f it'LL", "HTTPServerError getURLFor iPhone XMLHttpRequest", "Élan ÉLAN élanÉ ǅungla ʰa", "It'S we'Ve THEY'RE x'lLa", "aB'sC'tD", "中文ABC漢字abcかなKana",
    # what the cuts of DeepSeek see
    "1234567890123 12 1", "hello，世界！「引用」…", "x  \ny   ", "   trailing   ", "Привет мир Ω ℵ ﬁ", "ᄀᄁ\ud7ff가 abc 漢 ㄱ", "#include<a.h> //x /y @z", "a\u0300b\u0488 n\u0303", "±½\u00d7²\u00f7 $5 +x ^y",
    "\u00adsoft\u200dzwj\u0600num", "。、　。", "ｆｕｌｌ！～ＷＩＤＴＨ", "\x07bell\x00nul", "\r\n\r\r\n x\r", "a//\n/\nb!/\r\n/", "!?\n\n!?\r\n x", "日本語カタカナ・ひらがなｶﾅ", "grab a cab, abc", "\uac00\u11a7\uac00\u11a8",
]

SPECIALS = ["<|im_start|>", "<|im_end|>", "<|endoftext|>"]
USERS = ["<code>", "<co", "    ", "ne\u0301e"]

SPECIAL_TEXTS = [
    "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n", "a<|im_end|>b", "a <|im_end|> b", "a  <|im_end|>  b", "\n<|im_end|>\n", "<|im_end|><|im_end|>",
    "<<|im_end|>>", "<|im_end|", "1<|im_start|>2", "'s<|im_end|>'s", "안녕<|im_end|>세계", "e<|im_end|>\u0301", "<code>x</code>", "<co<code>", "x    y        z", "n ne\u0301e n\u00e9e",
    "<|endoftext|> <|endoftext|>", "\0<|im_end|>\0",
]


def texts():
    """(bytes, whether control tokens in it count)"""
    rng = random.Random(SEED)
    short = [t for t in cases.TEXTS if len(t.encode()) <= 48]
    chosen = [t.encode() for t in sorted(rng.sample(range(len(short)), 168)) for t in [short[t]]]
    chosen += [t.encode() for t in MORE]
    chosen += [t.encode() for t in rng.sample(list(cases.random_texts(rng)), 40) if len(t) < 40]
    chosen += [t for t in rng.sample(list(cases.garbage(rng)), 25) if len(t) < 40]
    chosen += [b" " * 70, b"\n" * 40, b"a" * 90, "가".encode() * 20, b"0" * 40]
    listed = [(t, False) for t in chosen]
    for t in SPECIAL_TEXTS:
        listed += [(t.encode(), False), (t.encode(), True)]
    return listed


# ---- byte-level BPE --------------------------------------------------------------------------------

ENDINGS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
GPT_4 = ENDINGS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN_2 = ENDINGS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN_35 = ENDINGS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
CASED = r"[^\r\n\p{L}\p{N}]?" + UPPER + "*" + LOWER + "+%s|" + r"[^\r\n\p{L}\p{N}]?" + UPPER + "+" + LOWER + "*%s|%s"
CASED_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
TEKKEN = CASED % ("", "", r"\p{N}") + CASED_REST
GPT_4O = CASED % (ENDINGS + "?", ENDINGS + "?", r"\p{N}{1,3}") + CASED_REST
DEEPSEEK_LLM_LETTERS = (
    "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-"
    "\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-"
    "\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-"
    "\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d"
    "\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3"
    "\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-"
    "\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943"
)
ASIAN = "[一-龥ࠀ-一가-\ud7ff]+"
PRINTED = r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"""
DEEPSEEK_V3 = PRINTED + "|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"


def split(pattern):
    return pre_tokenizers.Split(Regex(pattern), behavior="isolated", invert=False)


DIGITS = pre_tokenizers.Digits(individual_digits=True)
# name of tokenizer.ggml.pre: (steps before the bytes are spelled, whether the last step is GPT-2's own, NFC, ignore_merges)
ROWS = {
    "gpt-2": ([], True, False, False),
    "mpt": ([], True, True, False),
    "smollm": ([DIGITS], True, False, False),
    "command-r": ([DIGITS], True, True, False),
    "llama-bpe": ([split(GPT_4)], False, False, True),
    "dbrx": ([split(GPT_4)], False, False, False),
    "qwen2": ([split(QWEN_2)], False, True, False),
    "qwen35": ([split(QWEN_35)], False, True, False),
    "tekken": ([split(TEKKEN)], False, False, True),
    "gpt-4o": ([split(GPT_4O)], False, False, True),
    "deepseek-llm": (
        [split("[\r\n]"), split("\\s?[" + DEEPSEEK_LLM_LETTERS + "]+"), split("\\s?[!-/:-~！-／：-～‘-‟\u3000-。]+"), split(r"\s+$"), split(ASIAN), DIGITS],
        False, False, False,
    ),
    "deepseek-coder": ([split("[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?\p{P}+"), split(ASIAN), DIGITS], False, False, False),
    "deepseek-v3": ([split(r"\p{N}{1,3}"), split("[一-龥\u3040-ゟ゠-ヿ]+"), split(DEEPSEEK_V3)], False, False, False),
}


def byte_level_vocabulary(corpus):
    """Trained across every place where a pattern cuts, so that a cut in the wrong place gives other ids. Some whole pieces
    are tokens that no merge makes: only ignore_merges finds them."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    trainer = trainers.BpeTrainer(
        vocab_size=900, min_frequency=2, show_progress=False, max_token_length=6, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet())
    )
    tokenizer.train_from_iterator(corpus, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    merges = [" ".join(m) for m in model["merges"]]
    whole = [" quick", "brown", "123", " world", "안녕하세요", "Error", "\n\n\n\n", " café"]
    spell = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    spelled = ["".join(piece for piece, _ in spell.pre_tokenize_str(w)) for w in whole]
    tokens += [s for s in spelled if s not in tokens]
    types = [NORMAL] * len(tokens) + [USER] * len(USERS) + [CONTROL] * len(SPECIALS)
    keys = {"tokens": tokens + USERS + SPECIALS, "merges": merges, "token_type": types}
    return {"tokenizer.ggml." + name: value for name, value in keys.items()}


def byte_level_reference(vocabulary, row, special):
    steps, own, nfc, ignore_merges = ROWS[row]
    vocab = {t: i for i, t in enumerate(vocabulary["tokenizer.ggml.tokens"])}
    merges = [tuple(m.split(" ")) for m in vocabulary["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges, ignore_merges=ignore_merges))
    if nfc:
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*steps, pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True, use_regex=own)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_tokens([AddedToken(t, normalized=False) for t in USERS])
    if special:
        tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in SPECIALS])
    assert tokenizer.get_vocab_size() == len(vocab)
    return tokenizer


# ---- SentencePiece ---------------------------------------------------------------------------------

# What a model's own table may do: one for one, for several, for none; several for one; longest first.
RULES = {
    "\uff21": "A", "\uff42": "b", "\u00bd": "1/2", "\ufb01": "fi", "e\u0301": "\u00e9", "e\u0323\u0302": "\u1ec7", "\u00ad": "", "\u200b": "", "\u3000": " ",
    "\u00a0": " ", "\t": " ", "\n": " ", "\r": " ", "\u2026": "...", "\uac00\uac01": "ga", "\uac00": "\uac00!", "ab": "\u00e6", "abc": "c  b", "'": "\u2019", "\u2019": "'",
}

# name: (model type, rules instead of identity, trainer's options)
SENTENCEPIECE = {
    "spm": ("bpe", False, {"byte_fallback": True, "remove_extra_whitespaces": False}),
    "spm-table": ("bpe", True, {"byte_fallback": False, "remove_extra_whitespaces": True}),
    "spm-no-blank": ("bpe", False, {"byte_fallback": True, "remove_extra_whitespaces": False, "add_dummy_prefix": False}),
    "unigram": ("unigram", False, {"byte_fallback": True, "remove_extra_whitespaces": False}),
    "unigram-table": ("unigram", True, {"byte_fallback": False, "remove_extra_whitespaces": True}),
}
SPM_USERS = ["<code>", "<co", "n\u00e9e", "grab", "\u2581\u2581\u2581\u2581"]
SPM_UNIGRAM_USERS = SPM_USERS[:4]  # blanks can be spelled in several ways of one score, of which rounding chooses


def sentencepiece_model(corpus, kind, rules, options):
    model = io.BytesIO()
    with tempfile.NamedTemporaryFile("w", suffix=".tsv", encoding="utf-8") as table:
        for source, target in RULES.items():
            spell = lambda text: " ".join(f"{ord(c):X}" for c in text)
            table.write(f"{spell(source)}\t{spell(target)}\n")
        table.flush()
        options = dict(options, normalization_rule_tsv=table.name) if rules else dict(options, normalization_rule_name="identity")
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(corpus), model_writer=model, model_type=kind, vocab_size=700, num_threads=1, character_coverage=0.98, hard_vocab_limit=False,
            user_defined_symbols=SPM_USERS if kind == "bpe" else SPM_UNIGRAM_USERS, control_symbols=SPECIALS, minloglevel=2, **options,
        )
    return model.getvalue()


def sentencepiece_keys(proto):
    """(of the vocabulary, of the file)"""
    rules = proto.normalizer_spec
    kind = {2: "llama", 1: "t5"}[proto.trainer_spec.model_type]
    vocabulary = {
        "tokens": [p.piece for p in proto.pieces], "scores": [float(f"{p.score:.9g}") for p in proto.pieces], "token_type": [p.type for p in proto.pieces]
    }
    keys = {
        "model": kind, "add_space_prefix": rules.add_dummy_prefix, "remove_extra_whitespaces": rules.remove_extra_whitespaces,
        "precompiled_charsmap": list(rules.precompiled_charsmap),
    }
    return {"tokenizer.ggml." + k: v for k, v in vocabulary.items()}, {k: v for k, v in keys.items() if v != []}


def between_specials(encode, ids):
    """Every stretch between control tokens as a text of its own."""

    def encode_parts(text, special):
        parts = re.split("(" + "|".join(map(re.escape, SPECIALS)) + ")", text) if special else [text]
        return [i for part in parts if part for i in ([ids[part]] if special and part in SPECIALS else encode(part))]

    return encode_parts


def phi3_reference(vocabulary):
    """Phi-3's tokenizer.json: SentencePiece's merges by score, blanks as U+2581 and one in front, control tokens that strip
    what is right of them."""
    tokens, scores = vocabulary["tokenizer.ggml.tokens"], vocabulary["tokenizer.ggml.scores"]
    types = vocabulary["tokenizer.ggml.token_type"]
    vocab = {t: i for i, t in enumerate(tokens)}
    merges = []
    for i, token in enumerate(tokens):
        if types[i] == NORMAL:
            merges += [(-scores[i], token[:n], token[n:]) for n in range(1, len(token)) if {token[:n], token[n:]} <= set(vocab)]
    merges.sort(key=lambda m: m[0])
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[m[1:] for m in merges], unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False, rstrip=t != "<|endoftext|>") for t in SPECIALS + ["</s>"]])
    return tokenizer


def sentencepiece_sets(listed, corpus):
    vocabularies, sets = {}, []
    counts = Counter(c for text in corpus for c in text)
    common = {c for c, _ in counts.most_common(260)}  # characters beyond these are unknown to the models
    corpus = [line for text in corpus for line in text.split("\n") if set(line) <= common - {"\0"}]
    for name, (kind, rules, options) in SENTENCEPIECE.items():
        data = sentencepiece_model(corpus, kind, rules, options)
        model = sentencepiece.SentencePieceProcessor(model_proto=data)
        proto = sentencepiece_model_pb2.ModelProto()
        proto.ParseFromString(data)
        vocabularies[name], keys = sentencepiece_keys(proto)
        ids = {t: model.piece_to_id(t) for t in SPECIALS}
        made = set_of(name, name, keys, listed, between_specials(model.encode, ids))
        decoded = [model.decode(unpacked(i)).replace(" \u2047 ", "") for i in made["ids"]]  # how it shows the unknown token
        made["decoded"] = [text.encode().hex() if text.encode() != data else "=" for text, (data, _) in zip(decoded, listed)]
        sets.append(made)
    users = vocabularies["spm"]["tokenizer.ggml.token_type"]
    vocabularies["phi-3"] = dict(vocabularies["spm"], **{"tokenizer.ggml.token_type": [NORMAL if t == USER else t for t in users]})
    reference = phi3_reference(vocabularies["phi-3"])
    plain = Tokenizer.from_str(reference.to_str())
    encode = lambda text, special: reference.encode(text, add_special_tokens=False).ids
    special_only = [(t, s) for t, s in listed if s]
    made = set_of("phi-3", "phi-3", {"model": "llama"}, special_only, encode)
    made["keys"]["general.architecture"] = "phi3"
    made["special_only"] = True
    sets.append(made)
    return vocabularies, sets


# ---- writing ---------------------------------------------------------------------------------------

DIGITS_64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def packed(ids):
    """Two characters for an id."""
    assert all(i < 4096 for i in ids)
    return "".join(DIGITS_64[i >> 6] + DIGITS_64[i & 63] for i in ids)


def unpacked(text):
    digits = [DIGITS_64.index(c) for c in text]
    return [high << 6 | low for high, low in zip(digits[::2], digits[1::2])]


def set_of(name, vocabulary, keys, listed, encode):
    """What a file says, and the ids of all texts."""
    ids = [packed(encode(data.decode("utf-8", errors="replace"), special)) for data, special in listed]
    return {"name": name, "vocabulary": vocabulary, "keys": {"tokenizer.ggml." + k: v for k, v in keys.items()}, "ids": ids}


def cut(tokenizer, text):
    """Lengths in bytes of the pieces of a text."""
    pieces = tokenizer.pre_tokenizer.pre_tokenize_str(text)
    assert not pieces or [p[1][1] for p in pieces[:-1]] == [p[1][0] for p in pieces[1:]]
    return [len(text[first:end].encode()) for _, (first, end) in pieces]


def corpus_of(listed):
    corpus = [t.decode("utf-8", errors="replace") for t, _ in listed] * 2 + [cases.KOREAN, cases.CODE, cases.SHORT]
    return corpus + [unicodedata.normalize("NFC", t) for t in corpus]


def byte_level_sets(listed, corpus):
    vocabulary = byte_level_vocabulary(corpus)
    sets = []
    for row in ROWS:
        reference = {special: byte_level_reference(vocabulary, row, special) for special in (False, True)}
        encode = lambda text, special: reference[special].encode(text, add_special_tokens=False).ids
        made = set_of(row, "bytes", {"model": "gpt2", "pre": row}, listed, encode)
        made["pieces"] = [packed(cut(reference[False], data.decode("utf-8", errors="replace"))) for data, _ in listed]
        sets.append(made)
    return {"bytes": vocabulary}, sets


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    listed = texts()
    corpus = corpus_of(listed)
    vocabularies, sets = byte_level_sets(listed, corpus)
    more = sentencepiece_sets(listed, corpus)
    vocabularies, sets = vocabularies | more[0], sets + more[1]
    whole = {"texts": [{"hex": t.hex(), "special": s} for t, s in listed], "vocabularies": vocabularies, "sets": sets}
    lines = ",\n".join(f" {json.dumps(k)}: " + json.dumps(v, ensure_ascii=False, separators=(",", ":")) for k, v in whole.items())
    (out / "vocabularies.json").write_text("{\n" + lines + "\n}\n")
    print(len(listed), "texts,", {k: len(v["tokenizer.ggml.tokens"]) for k, v in vocabularies.items()}, {s["name"]: sum(map(len, s["ids"])) // 2 for s in sets})


if __name__ == "__main__":
    main()
