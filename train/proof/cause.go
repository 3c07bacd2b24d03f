package proof

import (
	"fmt"
	"slices"
	"strings"

	"vagen/train/track"
)

// NotExplained is the cause when nothing that was recorded differs.
const NotExplained = "not explained by what was recorded"

// causes are the kinds of facts, the likeliest first, with how the facts of each begin.
var causes = []struct {
	name  string
	facts []string
}{
	{"model", []string{"model", "critic", "reference", "adapter"}},
	{"data", []string{"data.", "sft."}},
	{"plugin or backend", []string{"plugin", "backend", "XLA_FLAGS", kernelsVariable}},
	{"processor", []string{"platform", "processor family", "instruction sets"}},
	{"code", []string{"version of "}},
}

// explain names the likely cause of the first difference.
func (b *Bisection) explain() {
	if b.First == nil {
		return
	}
	if seed := settings(b.Config, "run.seed"); len(seed) > 0 {
		b.Cause = "seed: " + seed[0]
		return
	}
	if keys := b.acting(); len(keys) > 0 {
		b.Cause = "configuration: " + strings.Join(keys, "; ")
		return
	}
	for _, kind := range causes {
		for _, f := range b.Facts {
			if slices.ContainsFunc(kind.facts, func(prefix string) bool { return strings.HasPrefix(f.What, prefix) }) {
				b.Cause = fmt.Sprintf("%s: %v", kind.name, f)
				return
			}
		}
	}
	for _, text := range b.Sessions {
		if strings.Contains(text, "changed settings") {
			b.Cause = "session: " + text
			return
		}
	}
	b.Cause = NotExplained
}

// settings returns the lines of a setting, or of all settings with a prefix that ends in a
// dot.
func settings(lines []string, prefixes ...string) []string {
	return slices.DeleteFunc(slices.Clone(lines), func(line string) bool {
		return !slices.ContainsFunc(prefixes, func(p string) bool {
			return strings.HasPrefix(line, p) && (strings.HasSuffix(p, ".") || strings.HasPrefix(line[len(p):], ":"))
		})
	})
}

// Settings by the stage of a step in which they first act. Others can act at every stage.
var (
	updateSettings    = []string{"actor_rollout_ref.actor.", "critic.optim.", "critic.cliprange_value"}
	advantageSettings = []string{"algorithm.", "filter."}
)

// acting returns the settings that differ and act at the stage of the first difference or
// before. In later steps every setting has acted.
func (b *Bisection) acting() []string {
	lines := slices.DeleteFunc(slices.Clone(b.Config), func(line string) bool {
		return len(settings([]string{line}, "trainer.total_training_steps", "trainer.total_epochs", "trainer.save_freq",
			"trainer.test_freq", "trainer.val_before_train")) > 0
	})
	if b.First.Step > 1 && b.First.Stage != track.StageImitation || b.First.Stage == track.StageUpdate ||
		b.First.Stage == StageWeights || b.First.Stage == track.StageValidation && b.First.Step > 0 {
		return lines
	}
	late := settings(lines, updateSettings...)
	if b.First.Stage != track.StageAdvantages {
		late = append(late, settings(lines, advantageSettings...)...)
	}
	early := slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return slices.Contains(late, line) })
	return early
}
