//! Text to statements: tokens, the flat AST with its canonical text, values, errors with a picture.
