package env

// Rules names a rule set of the environments of this library: that of a version of
// VAGEN, with its defaults, prompts and rewards.
type Rules string

// The rule sets.
const (
	Lite   Rules = "lite"
	Legacy Rules = "legacy"
	Next   Rules = "next" // the formats of August 2026
)

// Values of the option render_mode: what observations show.
const (
	Text   = "text"
	Vision = "vision"
)
