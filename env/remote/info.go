package remote

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"vagen/env"
	"vagen/reward"
)

// Info is a JSON object whose members are sent in this order. Values are nil,
// booleans, numbers, strings, Infos, and slices and maps of these. A float64 is
// written with a decimal point, an integer without.
type Info []Field

// Field is one entry of an Info.
type Field struct {
	Name  string
	Value any
}

// Len returns the number of entries.
func (in Info) Len() int { return len(in) }

// Member returns an entry.
func (in Info) Member(i int) (name string, value any) { return in[i].Name, in[i].Value }

// Informer builds the info dictionaries that clients receive from an environment.
// Environments may implement it; informerFor returns one for the others.
type Informer interface {
	// ResetInfo is sent with the first observation of an episode.
	ResetInfo() Info
	// StepInfo is sent with the outcome of a turn. It is called right after Step,
	// before any other call of the environment.
	StepInfo(env.Outcome) Info
}

// rewarder is implemented by environments with a reward for the whole episode, which
// clients of the legacy protocol request separately. Other environments answer 0.
type rewarder interface {
	FinalReward() float64
}

// detailer is implemented by environments that add entries to their info dictionaries.
// These follow the common entries, sorted by name.
type detailer interface {
	// Details returns the entries of the last turn, nil for none. It is called
	// right after Step. Values are those of an Info.
	Details() map[string]any
}

// informerFor returns the Informer of an environment.
// Wrappers with a method Unwrap, such as env.Judged, are removed first.
//
//   - An environment that implements Informer is returned itself.
//   - If it has a method Parser() *reward.Parser, the result sends the entries of the
//     original environment, with those of Claiming (see env.Claimant) and Details (see
//     detailer).
//   - Otherwise it sends the sections found in the response.
func informerFor(e env.Env) Informer {
	e = env.Unwrap(e)
	if in, ok := e.(Informer); ok {
		return in
	}
	t := outcomeInformer{parser: env.ParserOf(e)}
	if c, ok := e.(env.Claimant); ok {
		t.claiming = c.Claiming()
	}
	t.details, _ = e.(detailer)
	return t
}

// outcomeInformer is an Informer that sends the parsed response and the metrics.
type outcomeInformer struct {
	parser   *reward.Parser // nil if the format is not known
	claiming bool           // a judge scores claims about the state
	details  detailer       // nil for none
}

func (outcomeInformer) ResetInfo() Info { return Info{} }

func (t outcomeInformer) StepInfo(o env.Outcome) Info {
	in := parseInfo(t.parser, o.Response)
	if t.parser != nil && t.parser.Dialect() == reward.Legacy {
		in = legacyInfo(in, o, t.claiming)
	} else {
		in = append(in, metricsField(o), Field{"success", o.Success})
	}
	if t.details == nil {
		return in
	}
	details := t.details.Details()
	for _, name := range slices.Sorted(maps.Keys(details)) {
		in = append(in, Field{name, details[name]})
	}
	return in
}

// legacyInfo adds the entries that all environments of the legacy system send. With
// claiming, they include whether the turn's claims are rewarded.
func legacyInfo(in Info, o env.Outcome, claiming bool) Info {
	paid := o.Response.FormatCorrect && o.Turn["action_is_valid"] == 1
	in = append(in, Field{"is_format_rewarded", paid}, metricsField(o))
	if claiming || len(o.Claims) > 0 {
		in = append(in, Field{"use_state_reward", paid || len(o.Claims) > 0})
	}
	for _, c := range o.Claims {
		in = append(in, Field{c.Section + "_state", relations(c.Truth)})
	}
	return in
}

// relations returns the true state that a claim is compared with; an unknown relation
// is null.
func relations(truth []reward.Relation) []any {
	stated := func(s string) any {
		if s == "" {
			return nil
		}
		return s
	}
	list := make([]any, len(truth))
	for i, r := range truth {
		list[i] = Info{{"object_id", r.Object}, {"vertical_relation", stated(r.Vertical)},
			{"horizontal_relation", stated(r.Horizontal)}}
	}
	return list
}

// parseInfo returns the entries that the original system sends for a parsed response,
// by the parser's dialect. With a nil parser they are the sections found.
func parseInfo(p *reward.Parser, r reward.Response) Info {
	if p != nil && (p.Dialect() == reward.LiteNavigation || p.Dialect() == reward.LitePrimitiveSkill) {
		return briefInfo(p, r)
	}
	if p != nil && p.Dialect() == reward.Next {
		return nextInfo(p, r)
	}
	in := append(make(Info, 0, 12), Field{"llm_raw_response", r.Raw}) // room for what the caller adds
	var names []string
	if p != nil {
		in, names = append(in, Field{"llm_response", p.Canonical(r)}), contents(p)
	} else {
		names = slices.Sorted(maps.Keys(r.Sections))
	}
	for _, name := range names {
		in = append(in, Field{contentField(name), r.Sections[name]})
	}
	return append(in, Field{"actions", actions(r)}, Field{"format_correct", r.FormatCorrect})
}

// contentField names the field of a section's text.
func contentField(section string) string {
	switch section {
	case reward.SectionAnswer:
		return "action_content"
	case reward.SectionThink:
		return "think_content"
	}
	return section + "_content"
}

// contents lists the sections that the original parser reports, in its order. It
// always reports think and answer.
func contents(p *reward.Parser) []string {
	reported := append([]string{reward.SectionThink, reward.SectionAnswer}, p.Sections()...)
	if p.Dialect() == reward.Lite && slices.Contains(reported, reward.SectionPrediction) {
		reported = append(reported, reward.SectionReasoning)
	}
	return slices.DeleteFunc([]string{reward.SectionObservation, reward.SectionThink, reward.SectionReasoning,
		reward.SectionPrediction, reward.SectionAnswer}, func(name string) bool { return !slices.Contains(reported, name) })
}

// briefInfo returns the entries of Navigation and PrimitiveSkill in VAGEN lite,
// which send sections only if the format is correct.
func briefInfo(p *reward.Parser, r reward.Response) Info {
	in := Info{{"llm_raw_response", r.Raw}, {"actions", actions(r)}, {"format_correct", r.FormatCorrect}}
	if !r.FormatCorrect {
		return in
	}
	for _, name := range p.Sections() {
		if name != reward.SectionAnswer {
			in = append(in, Field{name, r.Sections[name]})
		}
	}
	return in
}

// nextInfo returns the entries of VAGEN next's environments, which are the same for all
// formats.
func nextInfo(p *reward.Parser, r reward.Response) Info {
	return Info{{"llm_raw_response", r.Raw}, {"llm_response", p.Canonical(r)},
		{"perception_content", r.Sections[reward.SectionObservation]},
		{"reasoning_content", r.Sections[reward.SectionReasoning]},
		{"prediction_content", r.Sections[reward.SectionPrediction]}, {"action_content", r.Sections[reward.SectionAnswer]},
		{"actions", actions(r)}, {"format_correct", r.FormatCorrect}}
}

func actions(r reward.Response) []string {
	if r.Actions == nil {
		return []string{}
	}
	return r.Actions
}

// metricsField holds the metrics of the turn and of the episode so far.
func metricsField(o env.Outcome) Field {
	return Field{"metrics", Info{
		{"turn_metrics", metrics(o.Turn, "action_is_valid", "action_is_effective")},
		{"traj_metrics", metrics(o.Trajectory, "success")},
	}}
}

// metrics returns the metrics called first in that order, then the others sorted by name.
func metrics(m env.Metrics, first ...string) Info {
	in := make(Info, 0, len(m))
	for _, name := range first {
		if v, ok := m[name]; ok {
			in = append(in, Field{name, metric(name, v)})
		}
	}
	named := len(in)
	for name, v := range m {
		if !slices.Contains(first, name) {
			in = append(in, Field{name, metric(name, v)})
		}
	}
	slices.SortFunc(in[named:], func(a, b Field) int { return cmp.Compare(a.Name, b.Name) })
	return in
}

// metric converts a yes/no metric, recognised by its name, to a boolean.
func metric(name string, v float64) any {
	yesNo := name == "success" || strings.HasSuffix(name, "_success") || name == "format_correct" ||
		strings.HasPrefix(name, "is_") || strings.Contains(name, "_is_")
	if yesNo && (v == 0 || v == 1) {
		return v == 1
	}
	return v
}
