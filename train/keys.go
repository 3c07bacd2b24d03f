package train

import (
	"fmt"
	"slices"
	"strings"

	"vagen/internal/settings"
	"vagen/train/config"
)

// OuterKeys lists the settings that a Trainer does not implement itself, by their tag owner: trainer is
// the Trainer, checkpoint a Trainer with a Checkpointer, learner the code that creates the Learner, run
// the code that creates Envs, Sinks and folders. Package train/run honours all of them. A Trainer
// refuses those that differ from their defaults, except those in Handled.
func OuterKeys() []string {
	defaults := config.Default()
	var out []string
	for _, k := range settings.Keys(&defaults) {
		if k.Owner != "trainer" {
			out = append(out, k.Path)
		}
	}
	return out
}

// checkKeys refuses settings that would have no effect.
func (t *Trainer) checkKeys() error {
	outer := OuterKeys()
	for _, h := range t.Handled {
		if !slices.ContainsFunc(outer, func(key string) bool { return covers(h, key) }) {
			return fmt.Errorf("%w: Trainer.Handled: %q is neither a key of train.OuterKeys nor a group of them that ends in a dot", config.ErrConfig, h)
		}
	}
	defaults := config.Default()
	before := settings.Keys(&defaults)
	var unhandled []string
	for i, k := range settings.Keys(&t.Config) {
		if k.Owner != "trainer" && config.ValueText(k.Value) != config.ValueText(before[i].Value) && !t.handles(k) {
			unhandled = append(unhandled, k.Path)
		}
	}
	if len(unhandled) == 0 {
		return nil
	}
	return fmt.Errorf("%w: a Trainer does not honour %s: use train/run.Open, or list them in Trainer.Handled if your program honours them", config.ErrConfig, strings.Join(unhandled, ", "))
}

// handles reports whether a key of OuterKeys is implemented.
func (t *Trainer) handles(k settings.Key) bool {
	if k.Owner == "checkpoint" && (t.Checkpointer != nil || k.Path == "trainer.save_freq" &&
		t.Config.Trainer.SaveFreq < 0) {
		return true
	}
	return slices.ContainsFunc(t.Handled, func(h string) bool { return covers(h, k.Path) })
}

// covers reports whether an entry of Handled is the key, or a group that contains it.
func covers(entry, key string) bool {
	return entry == key || strings.HasSuffix(entry, ".") && strings.HasPrefix(key, entry)
}
