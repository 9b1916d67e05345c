"""Records: bytes of any accepted shape become a conversation."""
