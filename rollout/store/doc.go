// Package store keeps trajectories in parquet files, with their images beside
// them, and reads them back.
//
//	Save, Writer     write the episodes of a step; Gallery also stores their images
//	Open, Reader     read a file: all of an episode as Stored, or its results as Summary
//	SaveScores       writes the numbers of the tokens, Scores, that estimators read
//	FirstDifference  compares episodes, as a replay of a step does
//	WriteEpisode     writes a readable copy of an episode: texts and images
//
// A file has a row for each episode, in the order in which they were written:
//
//	step                       training step, as passed to the writer
//	env, config, seed          the environment; config is JSON
//	group, index, max_turns    identity within the batch, and the turn limit in effect
//	end, error, success        how it ended; error is empty unless the episode is unusable
//	attempt, metrics           failed attempts before this one; metrics of the trajectory
//	turns[]                    what happened, turn by turn:
//	  row                        index of the conversation in rows
//	  observation, images[], cut what the agent was shown; names of images; whether it was cut
//	  response, stop             what the agent wrote, and why generation stopped
//	  policy_version             training step of the weights that wrote it; 0 also if that is unknown
//	  parsed                     raw, format_correct, sections[], actions[], dropped, boxed_answer
//	  reward[], metrics[]        lists of name and value
//	rows[]                     the conversations as training rows:
//	  tokens[], log_probs[]      one each per token
//	  pieces[]                   kind (prompt, observation, response or summary) and length, in order
//	  spans[]                    name, start and length of named parts of responses
//	  images[]                   hash, as the policy computes it, and name, empty without an image
//	  summary                    text of the summary that closed the conversation
//
// Lists are parquet LISTs, so that other readers see nested arrays. The file's
// metadata has the key "vagen.trajectories" with the format's version, 1. The format
// does not distinguish nil from empty values.
//
// Images are PNG files in the folder images beside the file, named by the SHA-256
// of width, height (64-bit little endian) and pixels (8-bit red, green, blue,
// alpha, row by row, not premultiplied). Equal images are stored once, also across
// files. Deeper colours are reduced to 8 bits.
//
// A file gets its name only when it is complete. Equal trajectories give equal files.
package store
