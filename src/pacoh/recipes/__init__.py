"""How learners are put together from names and numbers, with the default settings: one file a family."""
