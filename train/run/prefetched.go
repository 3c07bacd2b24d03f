package run

import (
	"fmt"
	"os"
	"path/filepath"

	"vagen/rollout/store"
	"vagen/train"
)

// Names of the folder with prefetched episodes in a checkpoint, and of its files: that of the
// next step, and those of later steps.
const (
	prefetchedFolder = "ahead"
	prefetchedNext   = "episodes.parquet"
	prefetchedLater  = "episodes_%d.parquet"
)

// prefetchedFile returns the file of the i-th entry of a state's prefetched episodes.
func prefetchedFile(dir string, i int, a *train.Collected) string {
	name := prefetchedNext
	if i > 0 {
		name = fmt.Sprintf(prefetchedLater, a.Step)
	}
	return filepath.Join(dir, prefetchedFolder, name)
}

// savePrefetched writes the episodes of a state to a checkpoint's folder.
func savePrefetched(dir string, all train.PrefetchedSteps) error {
	if len(all) == 0 {
		return nil
	}
	if err := os.Mkdir(filepath.Join(dir, prefetchedFolder), 0o755); err != nil {
		return err
	}
	for i, a := range all {
		if err := store.Save(prefetchedFile(dir, i, a), a.Step, a.Episodes); err != nil {
			return err
		}
	}
	return nil
}

// loadPrefetched reads them back.
func loadPrefetched(dir string, all train.PrefetchedSteps) error {
	for i, a := range all {
		kept, err := store.Load(prefetchedFile(dir, i, a))
		if err != nil {
			return err
		}
		for _, s := range kept {
			a.Episodes = append(a.Episodes, s.Trajectory)
		}
	}
	return nil
}
