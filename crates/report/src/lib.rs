//! What a run leaves, and how it is shown: run directory, tables, plots, HTML.
//!
//! Read `case` (what can be measured), `data` (what a run records), `results` (what that means),
//! then `run_dir` (where it is kept), `schema` (its documented form) and the renderers: `table`
//! for the terminal (over `grid`, the table itself), `plot` for pictures, `html` for the page.
//! `sample` makes a run that was never measured, for tests and to look at the renderers' work.
//! Nothing here measures anything or decides what to advise.

pub mod case;
pub mod data;
pub mod format;
pub mod grid;
pub mod html;
pub mod machine;
pub mod plot;
pub mod results;
pub mod run_dir;
mod run_error;
mod run_load;
pub mod sample;
pub mod schema;
pub mod table;
