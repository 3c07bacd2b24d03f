package dataset

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"sync"

	"vagen/env"
	"vagen/env/sokoban"
)

// defaultSeeders returns the seeders of the legacy environments that select seeds by their
// levels: sokobanSeeds for sokoban.
func defaultSeeders() map[string]Seeder { return map[string]Seeder{"sokoban": sokobanSeeds} }

// sokobanSeeds returns the first n seeds whose room under the legacy rules has a shortest
// solution of 1 to min_actions_to_succeed moves (an option, 5 by default). The original
// tries 20000 seeds and returns fewer than n if they do not suffice; here this is an error.
//
// Rooms are generated on all processors; the result does not depend on their number.
func sokobanSeeds(ctx context.Context, config map[string]any, n int) ([]int64, error) {
	options := maps.Clone(config)
	if options == nil {
		options = map[string]any{}
	}
	options["rules"], options["render_mode"] = string(env.Legacy), env.Text
	first, err := sokoban.FromConfig(options)
	if err != nil {
		return nil, err
	}
	most := first.(*sokoban.Env).Options().MinActions
	if err := first.Close(); err != nil {
		return nil, err
	}
	const block = 256 // seeds tested at a time
	var out []int64
	for from := int64(0); from < candidates && len(out) < n; from += block {
		good, err := solvable(ctx, options, from, min(block, candidates-from), most)
		if err != nil {
			return nil, err
		}
		for i, ok := range good {
			if ok && len(out) < n {
				out = append(out, from+int64(i))
			}
		}
	}
	if len(out) < n {
		return nil, fmt.Errorf("dataset: sokoban: %w: of the seeds below %d, %d have a room with a solution of at most %d moves; %d are needed",
			ErrFile, candidates, len(out), most, n)
	}
	return out, nil
}

// solvable reports for count seeds, starting with from, whether the room has a solution of
// 1 to most moves.
func solvable(ctx context.Context, options map[string]any, from, count int64, most int) ([]bool, error) {
	good := make([]bool, count)
	workers := min(runtime.GOMAXPROCS(0), int(count))
	errs := make([]error, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			e, err := sokoban.FromConfig(options)
			if err != nil {
				errs[w] = err
				return
			}
			for i := int64(w); i < count && errs[w] == nil; i += int64(workers) {
				good[i], errs[w] = solved(ctx, e, from+i, most)
			}
			errs[w] = errors.Join(errs[w], e.Close())
		})
	}
	wg.Wait()
	return good, errors.Join(errs...)
}

func solved(ctx context.Context, e env.Env, seed int64, most int) (bool, error) {
	if _, err := e.Reset(ctx, seed); err != nil {
		return false, err
	}
	moves, ok := e.(*sokoban.Env).Room().Solve(most)
	return ok && len(moves) > 0, nil
}

// MapBucket returns the bucket, in 0..n−1, of a Sokoban room. It depends only on the map:
// the first 8 bytes, big-endian, of the SHA-256 hash of both arrays as little-endian
// int64, row by row, mod n.
//
// fixed contains 0 for wall, 1 for floor and 2 for target; state also 3 for a box on a
// target, 4 for another box and 5 for the player.
func MapBucket(fixed, state [][]int64, n uint64) (uint64, error) {
	if n == 0 {
		return 0, errors.New("dataset: map bucket: there must be at least one bucket")
	}
	h := sha256.New()
	var word [8]byte
	for _, room := range [][][]int64{fixed, state} {
		for _, row := range room {
			for _, cell := range row {
				binary.LittleEndian.PutUint64(word[:], uint64(cell))
				h.Write(word[:])
			}
		}
	}
	return binary.BigEndian.Uint64(h.Sum(nil)) % n, nil
}

// RoomBucket is MapBucket for the current state of a room.
func RoomBucket(r *sokoban.Room, n uint64) (uint64, error) {
	r = cmp.Or(r, new(sokoban.Room))
	rows, cols := r.Size()
	fixed, state := make([][]int64, rows), make([][]int64, rows)
	for row := range rows {
		fixed[row], state[row] = make([]int64, cols), make([]int64, cols)
		for col := range cols {
			c := sokoban.Cell{Row: row, Col: col}
			f, s := int64(1), int64(1)
			switch {
			case r.Wall(c):
				f, s = 0, 0
			case r.Target(c):
				f, s = 2, 2
			}
			switch {
			case c == r.Player():
				s = 5
			case r.Box(c) && r.Target(c):
				s = 3
			case r.Box(c):
				s = 4
			}
			fixed[row][col], state[row][col] = f, s
		}
	}
	return MapBucket(fixed, state, n)
}
