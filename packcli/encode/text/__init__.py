"""Text: a conversation is rendered once, cut at added tokens, tokenized and labelled."""
