// A library with a table; -DTABLE=name.
_Alignas(64) char TABLE[6400];
