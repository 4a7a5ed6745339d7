//! `overlap` in its four ways, with kill -9 of the holder in the middle.
