"""Export: packs in the files of another trainer, and a plain account of what does not fit."""
