"""Encode against `datasets.map`, same records, one process, CPU seconds.

    taskset -c 0 python tests/benchmarks/bench_encode.py --model DIR [--chats 20000] [--images 2000]

Text is encoded in turns, each with chats of its own; the fewest CPU seconds of all turns count.
"The libraries alone" parse the JSON, tokenize the texts and write the finished rows, and nothing
else: what stands between is packcli's, and no ratio above theirs can be had with them.

Peers are "used well": whole batches go to the chat template and to the fast tokenizer, and the
image processor is the PIL one. A peer's clock starts when its dataset exists and includes its Arrow
cache; ours includes reading JSON and writing Parquet. Imports and tokenizer loading are left out
of both.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import alone
import corpus
import numpy as np


def cpu(work):
    """Return CPU seconds of this process and the result."""
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def ours(path, model, out, tokenizer="auto"):
    """Encode with packcli; a run on one record first loads everything."""
    from packcli.encode.options import EncodeJob, EncodeOptions
    from packcli.encode.run import Writing, encode

    job = EncodeJob(model, None, EncodeOptions(), tokenizer)
    first = path.with_name("first.jsonl")
    first.write_text(path.open(encoding="utf-8").readline(), encoding="utf-8")
    encode([first], job, Writing(out / "first", overwrite=True))
    seconds, summary = cpu(lambda: encode([path], job, Writing(out / "all", overwrite=True)))
    assert summary.rejected == 0, summary.reasons
    return seconds, summary.kept, summary.tokens


def libraries(path, model, out):
    """Let the libraries read, tokenize and write what `ours` has written."""
    read, rows = alone.read_and_tokenize(path, model), alone.finished(out / "all")
    return cpu(read)[0] + cpu(lambda: alone.write(rows, out / "again.parquet"))[0]


def labels_of(ids):
    """Label what follows `<|im_start|>assistant` newline, by a scan for token ids."""
    ids = np.asarray(ids)
    labels = np.full_like(ids, -100)
    starts = np.flatnonzero((ids[:-2] == 151644) & (ids[1:-1] == 77091))
    for start in starts.tolist():
        end = start + int(np.flatnonzero(ids[start:] == 151645)[0]) + 1
        labels[start + 3 : end] = ids[start + 3 : end]
    return labels.tolist()


def peer_text(path, model, *, batched):
    """datasets.map over apply_chat_template and the fast tokenizer."""
    from datasets import Dataset, disable_progress_bars
    from transformers import AutoTokenizer

    disable_progress_bars()
    tokenizer = AutoTokenizer.from_pretrained(model)
    rows = [json.loads(line) for line in path.open(encoding="utf-8")]
    data = Dataset.from_list([{"messages": row["messages"]} for row in rows])

    def one(row):
        text = tokenizer.apply_chat_template(row["messages"], tokenize=False)
        ids = tokenizer(text)["input_ids"]
        return {"input_ids": ids, "labels": labels_of(ids), "attention_mask": [1] * len(ids)}

    def many(rows):
        texts = tokenizer.apply_chat_template(rows["messages"], tokenize=False)
        out = tokenizer(texts)
        out["labels"] = [labels_of(ids) for ids in out["input_ids"]]
        return out

    work = many if batched else one
    return cpu(
        lambda: data.map(
            work,
            batched=batched,
            batch_size=500,
            remove_columns=data.column_names,
            load_from_cache_file=False,
        )
    )


def peer_images(path, model):
    """datasets.map over decode, the PIL image processor and the fast tokenizer."""
    from datasets import Dataset, disable_progress_bars
    from PIL import Image
    from transformers import AutoTokenizer
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import (
        Qwen2VLImageProcessorPil,
    )

    disable_progress_bars()
    tokenizer = AutoTokenizer.from_pretrained(model)
    processor = Qwen2VLImageProcessorPil.from_pretrained(model)
    rows = [json.loads(line) for line in path.open(encoding="utf-8")]
    data = Dataset.from_list(rows)

    def one(row):
        images = [Image.open(path.parent / name).convert("RGB") for name in row["images"]]
        grids = processor(images)["image_grid_thw"]
        question = row["messages"][0]["content"].replace("<image>", "")
        parts = [{"type": "image"}] * len(images) + [{"type": "text", "text": question}]
        answer = [{"type": "text", "text": row["messages"][1]["content"]}]
        turns = [{"role": "user", "content": parts}, {"role": "assistant", "content": answer}]
        text = tokenizer.apply_chat_template(turns, tokenize=False)
        for grid in np.asarray(grids):
            pads = "<|held|>" * int(grid.prod() // 4)
            text = text.replace("<|image_pad|>", pads, 1)
        ids = tokenizer(text.replace("<|held|>", "<|image_pad|>"))["input_ids"]
        return {"input_ids": ids, "labels": labels_of(ids), "attention_mask": [1] * len(ids)}

    return cpu(lambda: data.map(one, remove_columns=data.column_names, load_from_cache_file=False))


def report(name, samples, tokens, seconds, against):
    """Print one row."""
    rate = samples / seconds
    ratio = "" if against is None else f"{rate / against:8.1f} x"
    print(f"{name:<34}{rate:>10.0f} samples/s {tokens / seconds / 1e6:>8.3f} Mtok/s {ratio}")
    return rate


def compare_text(out, options):
    """Encode text with all, in turns, each with chats of its own, so that no cache knows them."""
    path, least = out / "chats.jsonl", {}
    for turn in range(options.runs):
        corpus.write_chats(path, options.chats, turn * options.chats)
        for name in ("fast", "hf"):
            seconds, samples, tokens = ours(path, options.model, out, name)
            _keep(least, f"packcli encode, text, {name}", (seconds / samples, tokens / samples))
            if name == "fast":
                seconds = libraries(path, options.model, out)
                _keep(least, "the libraries alone", (seconds / samples, tokens / samples))
        for batched in (True, False):
            seconds, _ = peer_text(path, options.model, batched=batched)
            title = f"datasets.map{' batched' if batched else ''}"
            _keep(least, title, (seconds / samples, tokens / samples))
    for peer in ("datasets.map batched", "datasets.map"):
        seconds, tokens = least.pop(peer)
        base = report(peer, 1, tokens, seconds, None)
        for name, (own, each) in least.items():
            if not name.startswith("datasets"):
                report(name, 1, each, own, base)


def _keep(least, name, measured):
    """Keep the fewest seconds a sample."""
    least[name] = min(least.get(name, measured), measured)


def main():
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--chats", type=int, default=20_000)
    parser.add_argument("--images", type=int, default=0)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    named = ("datasets", "transformers", "tokenizers", "fastokens", "minijinja", "pyarrow")
    print(", ".join(f"{name} {version(name)}" for name in named))
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        if options.chats:
            compare_text(out, options)
        if options.images:
            names = corpus.write_photos(out, 200)
            path = out / "images.jsonl"
            with path.open("w", encoding="utf-8") as stream:
                for record in corpus.image_lines(names, options.images):
                    stream.write(json.dumps(record) + "\n")
            seconds, samples, tokens = ours(path, options.model, out)
            few = path.with_name("few.jsonl")
            lines = path.read_text(encoding="utf-8").splitlines()[: min(200, options.images)]
            few.write_text("\n".join(lines), encoding="utf-8")
            peer, _ = peer_images(few, options.model)
            base = report("datasets.map, PIL processor", len(lines), 0, peer, None)
            report("packcli encode, images", samples, tokens, seconds, base)


if __name__ == "__main__":
    main()
