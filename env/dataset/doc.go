// Package dataset says which episodes are played: it reads the files that list
// environments and expands them into seeds.
//
//	form             file                     read by
//	list of entries  YAML with a list envs    ReadSpecs
//	legacy           YAML, entries by name    ReadLegacy
//	episodes         parquet                  ReadParquet
//
// Load takes any of the three. The YAML forms are those of the original systems,
// and the seeds that they expand into are theirs, number for number: both forms
// draw from Python's random module. WriteParquet writes the columns that the
// legacy system reads.
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
// Reading is strict: unknown keys, values of the wrong kind and contradictions are
// reported all at once, with the entry's line and the nearest known name. A key with
// the value null counts as not given.
//
// Equal seeds are equal levels, so a model that is validated on seeds that it was
// trained on shows what it remembers. Overlaps finds them, and RoomBucket splits
// Sokoban by its maps, which different seeds may share.
package dataset
