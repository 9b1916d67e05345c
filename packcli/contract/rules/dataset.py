"""Rules about a dataset as a whole; `verify` checks them where it has the files at hand."""

from __future__ import annotations

from packcli.contract.rules.rule import Rule

MANIFEST = "a dataset's folder, with its manifest.json"
"""What rules need that hold shards against a manifest."""

DATASET = (
    Rule(
        "manifest.fingerprint",
        0,
        "the manifest's fingerprint is that of its own fields",
        "the manifest was edited: create the dataset again",
        (MANIFEST,),
    ),
    Rule(
        "shard.missing",
        0,
        "every shard that the manifest names is in data/",
        "copy the dataset again, whole",
        (MANIFEST,),
    ),
    Rule(
        "shard.extra",
        0,
        "data/ holds the shards of the manifest and nothing else",
        "remove the file, or keep it elsewhere: trainers would read it",
        (MANIFEST,),
    ),
    Rule(
        "shard.sha256",
        0,
        "a shard has the size and SHA-256 that the manifest names",
        "copy the shard again; if it was edited, create the dataset again",
        (MANIFEST,),
    ),
    Rule(
        "shard.checksum",
        0,
        "every page of a shard reads back with its checksum",
        "the file is damaged: copy it again",
    ),
    Rule(
        "media.missing",
        0,
        "every embedded medium that a sample names is in media/",
        "copy the dataset again, whole; or encode again with --embed-media",
        (MANIFEST,),
    ),
    Rule(
        "media.sha256",
        0,
        "an embedded medium has the SHA-256 that names it",
        "the file is damaged: copy it again",
        (MANIFEST,),
    ),
    Rule(
        "dataset.empty",
        0,
        "there is at least one pack",
        "look at rejected.jsonl: nothing was kept",
    ),
    Rule(
        "pack.capacity",
        10,
        "no pack is longer than the capacity that it was planned for",
        "pack again; over-long samples are rejected, never squeezed in",
        (MANIFEST,),
    ),
    Rule(
        "conservation",
        15,
        "the samples are those that encode wrote, each once, and the manifest counts what is there",
        "pack again from the encoded shards",
        (MANIFEST,),
    ),
    Rule(
        "sample.missing",
        15,
        "every sample that the source gives is in a pack, or in rejected.jsonl",
        "pack again from all encoded shards of the source",
    ),
    Rule(
        "sample.changed",
        15,
        "a packed sample is what encode makes of its record",
        "the record, its media or the model directory changed after encode: encode and pack again",
    ),
    Rule(
        "sample.extra",
        15,
        "every packed sample is one that the source gives, as often as it gives it",
        "name every input that the dataset was made from, or encode and pack again",
    ),
    Rule(
        "isolation.attention",
        20,
        "a varlen attention kernel, given the stored boundaries, keeps samples apart",
        "mend cu_seqlens and max_seqlen; the message names the samples that see each other",
    ),
    Rule(
        "isolation.windows",
        20,
        "the same kernel, not causal, keeps the windows of a vision tower apart and whole",
        "mend vit_cu_seqlens; the message names the windows that see each other",
    ),
    Rule(
        "isolation.state",
        20,
        "the recurrent state of linear attention starts empty in every sample",
        "mend cu_seqlens; pass it to the kernel as cu_seqlens",
    ),
    Rule(
        "isolation.conv",
        20,
        "the causal convolution reads no token of the sample before",
        "mend cu_seqlens; pass seq_idx to the convolution",
    ),
    Rule(
        "isolation.model",
        20,
        "a model, given the collator's arguments, computes every sample as if it stood alone",
        "mend the boundaries; the message names the samples that see each other, and where",
    ),
    Rule(
        "model.slots",
        20,
        "the model's own forward finds as many image and video features as slots",
        "see slot.count: grids and pad tokens of the pack do not belong together",
    ),
    Rule(
        "isolation.control",
        20,
        "the proof notices packs that were broken on purpose",
        "the kernel does not behave as documented: report it, and do not trust this proof",
    ),
)
