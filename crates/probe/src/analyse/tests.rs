//! What the analysis says of runs that were never measured, with known answers.
