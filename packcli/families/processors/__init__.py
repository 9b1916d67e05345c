"""What processors of several families share: sizes, frames, tiles, and their JSON files."""
