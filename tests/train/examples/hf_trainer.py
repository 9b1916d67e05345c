"""Train a vision model on packs with the Hugging Face Trainer.

python hf_trainer.py MODEL_DIRECTORY PACKED MEDIA_ROOT OUTPUT
"""

import sys

from transformers import AutoConfig, AutoModelForImageTextToText, Trainer, TrainingArguments

from packcli.train import MediaLoader, PackCollator, PackDataset

model_directory, packed, media_root, output = sys.argv[1:]

dataset = PackDataset(packed)
media = MediaLoader(dataset, media_root, model_directory)
trainer = Trainer(
    model=AutoModelForImageTextToText.from_config(AutoConfig.from_pretrained(model_directory)),
    args=TrainingArguments(
        output,
        per_device_train_batch_size=1,  # rows of one batch merge into one flat row
        max_steps=4,
        learning_rate=5e-3,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
    ),
    train_dataset=dataset,
    data_collator=PackCollator(dataset.facts, media),
)
trainer.train()
