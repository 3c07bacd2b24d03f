// Package proof records what a run did in a chained file, checks a run against it, and
// finds the first difference between two runs.
//
// A run's folder contains proof.jsonl. Each line has the hash of the line before it, so
// that a line that was changed, removed or moved is found. The first line has the facts
// that a result depends on: configuration, code, processor, backend. The following lines
// have the SHA-256 of the inputs (weights, tokenizer, XLA's plugin) and of what the run
// wrote: metrics without those of time and machine, episodes, scores, checkpoints.
// Resumes, changes of the configuration and rollbacks have lines of their own.
//
// [Verify] compares the chain with the files. [Bisect] compares two runs, also those
// without a chain. Neither needs a model. vagen/train/replay.Verify also replays steps.
//
// The chain finds damage and accidental changes, and edited runs that were recorded again: a
// chain that begins with a resume, a resume from another checkpoint than the one that was saved,
// a missing end, files that no line names. It is not signed: whoever can write to
// the folder can compute another chain. [Report].Head, the hash of the last line, stands
// for the whole chain: keep it elsewhere to recognise the same run later.
//
// A [Recorder] writes the chain: [Facts] and the hashes of [Inputs] first, then a [Line] for
// each event. [Read] returns it as a [Chain].
package proof
