"""Media without pixels: where a file lies, how large an image is, what a video holds."""
