// Package view serves the page of `vagen view`: metrics, episodes and credit of runs, read
// from their folders while they train.
//
// A [Server] reads files only, and only those of its runs: metrics.jsonl, config.yaml,
// episodes and images in the run's folder, and in trainer.rollout_data_dir and
// trainer.validation_data_dir if those folders belong to the run. A file that is missing,
// torn or of another version is reported as a problem of the run or of the episode; the
// rest is shown.
//
// The list of episodes comes from the few columns that it needs. It is kept in memory and
// renewed file by file, by size and time of change. Texts, tokens and scores are read when
// they are requested. Images are sent as files, never decoded.
//
// Without a key the server answers only on loopback addresses and under loopback names.
// With a key every request must have it. Requests from pages of other origins are refused,
// and every answer forbids scripts, styles and frames of other origins.
package view
