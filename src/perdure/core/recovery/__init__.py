"""What becomes of an interrupted turn: the decision, the tail of its journal, and the note to the model."""
