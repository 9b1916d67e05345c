"""Train a text model on packs with TRL: it reads the shards as they stand.

python trl_sft.py MODEL_DIRECTORY PACKED OUTPUT
"""

import sys

from datasets import load_dataset
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

model_directory, packed, output = sys.argv[1:]

rows = load_dataset(packed, split="train")
trainer = SFTTrainer(
    model=AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(model_directory)),
    args=SFTConfig(
        output,
        padding_free=True,  # all three are needed: other values merge the samples of a pack
        packing=False,
        max_length=None,
        per_device_train_batch_size=1,
        max_steps=6,
        learning_rate=2e-3,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        bf16=False,
    ),
    # without seq_lengths TRL counts positions over the whole row
    train_dataset=rows.select_columns(["input_ids", "labels", "seq_lengths"]),
    processing_class=AutoTokenizer.from_pretrained(model_directory),
)
trainer.train()
