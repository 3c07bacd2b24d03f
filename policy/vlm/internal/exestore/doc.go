// Package exestore keeps executables that XLA compiled in a folder, so that another
// process loads them instead of compiling.
//
// go-xla v0.4.1 has no call for PJRT's serialisation. Attach therefore gives go-xla a
// copy of the plugin's table of functions in which PJRT_Client_Compile is a function of
// this package. It receives exactly what decides a compilation, the program and the
// compile options, and returns a loaded executable, so GoMLX and go-xla need no other
// change. Only compilations within Store.Compile use a folder; all others are passed to
// the plugin. If anything differs from what this package expects (another version, a
// plugin without the calls, an error), programs are compiled as without it.
//
// An entry is found by the SHA-256 of the program, the options, the plugin, the
// devices, the processor and the environment variables that XLA reads. It contains
// machine code that the process will run: the folder must not be writable by other
// users. A checksum detects damaged files, which are compiled and written again; it
// does not protect against an attacker who can write to the folder.
package exestore
