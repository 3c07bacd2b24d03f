package model

import "strings"

// Two layouts of names in files: those in memory, and others.
var renames = []struct{ now, other string }{
	{"model.visual.", "visual."},
	{"model.language_model.", "model."},
}

// OtherName is the name of a tensor in another layout of its family's files: that of the first released
// Qwen2.5-VL files, or of a text model that was taken out of a Qwen3.5 model with a vision tower.
// The other text models have one layout only.
func (c *Config) OtherName(name string) string {
	for _, r := range renames {
		from, to := r.now, r.other
		if c.Family == Qwen35Text {
			from, to = to, from
		} else if c.Vision == nil {
			continue
		}
		if rest, ok := strings.CutPrefix(name, from); ok {
			return to + rest
		}
	}
	return name
}

// ReleasedName is the name of a tensor in the family's released files.
func (c *Config) ReleasedName(name string) string {
	if c.Family == Qwen25VL {
		return c.OtherName(name)
	}
	return name
}

// Unused reports whether a tensor that released files hold has no part in the model: the head that predicts
// further tokens, and the vision tower that a text model leaves out.
func (c *Config) Unused(name string) bool {
	return c.Family.isQwen35() && strings.HasPrefix(name, "mtp.") ||
		c.Family == Qwen35Text && strings.HasPrefix(name, visionPrefix)
}
