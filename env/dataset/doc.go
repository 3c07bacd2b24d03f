// Package dataset lists the episodes to play: it reads files with lists of
// environments and expands them into seeds.
//
//	form             file                     read by
//	list of entries  YAML with a list envs    ReadSpecs
//	legacy           YAML, entries by name    Load
//	episodes         parquet                  ReadParquet
//
// Load reads all three. The YAML forms are those of the original systems and expand
// into exactly the same seeds: both forms draw from Python's random module.
// WriteParquet writes the columns that the legacy system reads.
//
//	envs:
//	  - name: Sokoban
//	    n_envs: 10000
//	    seed: [1, 10000, 1]      # each seed from 1 to 10000 at most once
//	    max_turns: 5
//	    response_length_per_turn: 512
//	    config:
//	      render_mode: vision
//
// Reading is strict: unknown keys, values of the wrong type and contradictions are
// reported all at once, with the entry's line and the nearest known name. A key with
// the value null counts as not given.
//
// Equal seeds give equal levels, so validation on training seeds measures memorisation.
// Overlaps finds such seeds. Different seeds of Sokoban may give the same map; RoomBucket
// splits its levels by map.
package dataset
