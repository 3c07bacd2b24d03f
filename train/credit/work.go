package credit

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"vagen/internal/durable"
	"vagen/internal/rng"
	"vagen/policy"
	"vagen/reward"
	"vagen/rollout"
)

// work is what was played for an episode: the returns of its continuations.
type work struct {
	Fingerprint string     `json:"fingerprint"`
	Tokens      int64      `json:"tokens"`
	Turns       []workTurn `json:"turns"`
	LeftOut     []LeftOut  `json:"left_out,omitempty"`
}

// workTurn has the returns of a turn's continuations. Those that cannot be used are
// unknown.
type workTurn struct {
	Turn         int               `json:"turn"`
	Actions      []string          `json:"actions"`
	Q            []Number          `json:"q"`
	V            []Number          `json:"v"`
	Alternatives []workAlternative `json:"alternatives,omitempty"`
}

type workAlternative struct {
	Actions []string `json:"actions"`
	Share   Number   `json:"share"`
	Q       []Number `json:"q"`
}

// TablePath returns the file of the table of a checkpoint in a run's folder.
func TablePath(run string, policy int) string {
	return filepath.Join(workDir(run, policy), "table.json")
}

func workDir(run string, policy int) string {
	return filepath.Join(run, Folder, fmt.Sprintf("step_%d", policy))
}

// work returns what was played for an episode, from the disk if it is there.
func (m *Measurement) work(ctx context.Context, t *rollout.Trajectory) (*work, error) {
	print, err := m.fingerprint(t)
	if err != nil {
		return nil, err
	}
	// Measurements with other options are kept beside each other.
	path := filepath.Join(workDir(m.Run, m.Policy), "work", fmt.Sprintf("%d-%d-%.12s.json", t.Group, t.Index, print))
	w := new(work)
	err = readJSON(path, w)
	if err == nil {
		err = w.check(print, m.Branches, len(t.Turns))
	}
	switch {
	case err == nil:
		return w, nil
	case errors.Is(err, fs.ErrNotExist):
	case errors.Is(err, ErrFile):
		m.Log.Warn("a damaged file is measured again", "file", path, "err", err)
	default:
		return nil, err
	}
	if w, err = m.play(ctx, t); err != nil {
		return nil, err
	}
	w.Fingerprint = print
	return w, writeJSON(path, w)
}

// check refuses what play does not return.
func (w *work) check(print string, branches, turns int) error {
	if w.Fingerprint != print || w.Tokens < 0 {
		return fmt.Errorf("%w: it has the fingerprint %.12q and %d tokens", ErrFile, w.Fingerprint, w.Tokens)
	}
	last := -1
	for i := range w.Turns {
		k := &w.Turns[i]
		lengths := []int{len(k.Q), len(k.V)}
		for _, a := range k.Alternatives {
			lengths = append(lengths, len(a.Q))
		}
		if k.Turn <= last || k.Turn >= turns || slices.Min(lengths) != branches || slices.Max(lengths) != branches {
			return fmt.Errorf("%w: turns[%d] is turn %d with %v returns", ErrFile, i, k.Turn, lengths)
		}
		last = k.Turn
	}
	return nil
}

// fingerprint identifies everything that the returns of an episode's continuations depend
// on.
func (m *Measurement) fingerprint(t *rollout.Trajectory) (string, error) {
	p, o := m.Player, &m.Options
	type response struct {
		Row    int
		Text   string
		Reward reward.Parts
	}
	what := struct {
		Identity, Env       string
		Config              map[string]any
		EnvSeed             int64
		Policy, Step        int
		Branches            int
		Alternatives        int
		Force               []string
		Turns               []int
		Gamma               float64
		Seed                uint64
		Sampling            policy.Sampling
		MaxTurns, OfEpisode int
		MaxTokens, MaxObs   int
		Budget, Harness     string
		EpisodeMean         []string
		Group, Index        int
		Tokens              [][]int32
		Responses           []response
	}{
		m.Identity, t.Env, t.Config, t.Seed, m.Policy, m.Number, o.Branches, o.Alternatives, o.Force, o.Turns, o.Gamma, o.Seed,
		p.Sampling, p.MaxTurns, t.MaxTurns, t.MaxTokens, t.MaxObservation, fmt.Sprintf("%+v", p.Budget), fmt.Sprintf("%T %+v", p.Harness, p.Harness),
		p.EpisodeMean, t.Group, t.Index, nil, nil,
	}
	for i := range t.Rows {
		what.Tokens = append(what.Tokens, t.Rows[i].Tokens())
	}
	for _, k := range t.Turns {
		what.Responses = append(what.Responses, response{k.Row, k.Response, k.Reward})
	}
	raw, err := json.Marshal(what)
	if err != nil {
		return "", fmt.Errorf("credit: group %d, episode %d: %w", t.Group, t.Index, err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), nil
}

// play plays the continuations of an episode.
func (m *Measurement) play(ctx context.Context, t *rollout.Trajectory) (*work, error) {
	b := batch{Measurement: m, from: t, seed: rng.Derive(m.Seed, rng.Credit, playDraws, uint64(m.Number), uint64(t.Group), uint64(t.Index))}
	if len(m.Player.EpisodeMean) == 0 { // the rewards of a snapshot's past are means then
		var err error
		if b.states, err = m.Player.Snapshots(ctx, t); err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			m.Log.Debug("no snapshots: the environment repeats the recorded responses", "group", t.Group, "episode", t.Index, "err", err)
		}
	}
	w := new(work)
	turns := m.Turns
	if turns == nil {
		turns = make([]int, len(t.Turns))
		for k := range turns {
			turns[k] = k
		}
	}
	turns = slices.Clone(turns)
	slices.Sort(turns)
	for _, k := range slices.Compact(turns) {
		if k >= len(t.Turns) {
			break
		}
		given, err := t.Recorded(k)
		if err != nil {
			w.LeftOut = append(w.LeftOut, LeftOut{k, err.Error()})
			continue
		}
		w.Turns = append(w.Turns, workTurn{Turn: k, Actions: actions(t, k)})
		b.add(k, given)
		b.add(k, nil)
	}
	sides, err := b.play(ctx, w)
	if err != nil {
		return nil, err
	}
	var whole []workTurn
	drawn := map[int][]*rollout.Trajectory{}
	for i := range w.Turns {
		k, q, v := &w.Turns[i], sides[2*i], sides[2*i+1]
		if why := mismatch(append(slices.Clip(q), v...)); why != "" {
			w.LeftOut = append(w.LeftOut, LeftOut{k.Turn, why})
			continue
		}
		k.Q, k.V = returns(q, k.Turn, m.Gamma), returns(v, k.Turn, m.Gamma)
		whole, drawn[k.Turn] = append(whole, *k), v
	}
	w.Turns = whole
	return w, m.playAlternatives(ctx, &b, w, drawn)
}

// playAlternatives plays the continuations of other actions.
func (m *Measurement) playAlternatives(ctx context.Context, b *batch, w *work, drawn map[int][]*rollout.Trajectory) error {
	for i := range w.Turns {
		k := &w.Turns[i]
		others, responses := alternatives(k, drawn[k.Turn], m.Alternatives)
		for _, answer := range m.Force {
			r, err := m.forced(b.from, k.Turn, answer)
			if err != nil {
				m.Log.Warn("an answer cannot be forced", "answer", answer, "group", b.from.Group, "episode", b.from.Index, "turn", k.Turn, "err", err)
				continue
			}
			others, responses = append(others, workAlternative{Share: Number(math.NaN())}), append(responses, r)
		}
		k.Alternatives = others
		for _, r := range responses {
			b.add(k.Turn, r)
		}
	}
	sides, err := b.play(ctx, w)
	if err != nil {
		return err
	}
	for i := range w.Turns {
		k := &w.Turns[i]
		for j := range k.Alternatives {
			a := &k.Alternatives[j]
			a.Q = returns(sides[0], k.Turn, m.Gamma)
			if a.Actions == nil { // forced: the environment says what it understood
				a.Actions = firstActions(sides[0], k.Turn)
			}
			sides = sides[1:]
		}
	}
	return nil
}

// batch collects continuations that are played together.
type batch struct {
	*Measurement
	from     *rollout.Trajectory
	states   [][]byte // before each turn; nil without snapshots
	seed     uint64
	branches []rollout.Branch
}

// add adds the continuations of one side of a turn.
func (b *batch) add(turn int, response *policy.Completion) {
	var state []byte
	if b.states != nil {
		state = b.states[turn]
	}
	for i := range b.Branches {
		b.branches = append(b.branches, rollout.Branch{From: b.from, Turn: turn, State: state, Reseed: true, Response: response, Group: turn, Index: i})
	}
}

// play plays what was added and returns it by side.
func (b *batch) play(ctx context.Context, w *work) ([][]*rollout.Trajectory, error) {
	if len(b.branches) == 0 {
		return nil, nil
	}
	ts, _, err := b.Player.Continue(ctx, b.branches, b.seed)
	if err != nil {
		return nil, fmt.Errorf("credit: group %d, episode %d: %w", b.from.Group, b.from.Index, err)
	}
	for i, t := range ts {
		first := b.branches[i].Turn
		if b.branches[i].Response != nil {
			first++
		}
		w.Tokens += written(t, first)
	}
	b.branches = b.branches[:0]
	return slices.Collect(slices.Chunk(ts, b.Branches)), nil
}

// written counts the response tokens of an episode from a turn on.
func written(t *rollout.Trajectory, from int) int64 {
	said, n := make([]int, len(t.Rows)), 0
	for k := range t.Turns {
		row := t.Turns[k].Row
		start, end, _ := t.Rows[row].TurnAt(said[row])
		if said[row]++; k >= from {
			n += end - start
		}
	}
	return int64(n)
}

// mismatch says why a turn cannot be measured because its past cannot be repeated.
func mismatch(ts []*rollout.Trajectory) string {
	for _, t := range ts {
		if t.End == rollout.EndReplay {
			return t.Err.Error()
		}
	}
	return ""
}

// returns are those of continuations; the ones that cannot be used are unknown.
func returns(ts []*rollout.Trajectory, from int, gamma float64) []Number {
	out := make([]Number, len(ts))
	for i, t := range ts {
		if out[i] = Number(math.NaN()); t.End.Usable() {
			out[i] = Number(returnFrom(t, from, gamma))
		}
	}
	return out
}

func actions(t *rollout.Trajectory, turn int) []string {
	return append([]string{}, t.Turns[turn].Parsed.Actions...)
}

// firstActions are those of the first continuation that has the turn.
func firstActions(ts []*rollout.Trajectory, turn int) []string {
	for _, t := range ts {
		if t.End.Usable() && turn < len(t.Turns) {
			return actions(t, turn)
		}
	}
	return []string{}
}

// alternatives are the most frequent actions of the responses that were drawn anew, other
// than those that were given, each with the first response that has them.
func alternatives(k *workTurn, drawn []*rollout.Trajectory, most int) (out []workAlternative, responses []*policy.Completion) {
	type group struct {
		actions []string
		count   int
		first   *rollout.Trajectory
	}
	var groups []*group
	at, usable := map[string]*group{}, 0
	for _, t := range drawn {
		if !t.End.Usable() || k.Turn >= len(t.Turns) {
			continue
		}
		usable++
		a := actions(t, k.Turn)
		if slices.Equal(a, k.Actions) {
			continue
		}
		key := strings.Join(a, "\x00")
		if at[key] == nil {
			at[key] = &group{actions: a, first: t}
			groups = append(groups, at[key])
		}
		at[key].count++
	}
	slices.SortStableFunc(groups, func(a, b *group) int { return cmp.Compare(b.count, a.count) })
	for _, g := range groups[:min(most, len(groups))] {
		r, err := g.first.Recorded(k.Turn)
		if err != nil {
			continue
		}
		out = append(out, workAlternative{Actions: g.actions, Share: Number(float64(g.count) / float64(usable))})
		responses = append(responses, r)
	}
	return out, responses
}

// forced is the response of a turn with another text between its answer tags.
func (m *Measurement) forced(t *rollout.Trajectory, turn int, answer string) (*policy.Completion, error) {
	encoder, ok := m.Player.Policy.(policy.Encoder)
	if !ok {
		return nil, fmt.Errorf("the policy is a %T, which is no policy.Encoder", m.Player.Policy)
	}
	k := &t.Turns[turn]
	before, rest, ok := strings.Cut(k.Response, "<"+reward.SectionAnswer+">")
	_, after, closed := strings.Cut(rest, "</"+reward.SectionAnswer+">")
	if !ok || !closed {
		return nil, fmt.Errorf("the response has no <%s>", reward.SectionAnswer)
	}
	text := before + "<" + reward.SectionAnswer + ">" + answer + "</" + reward.SectionAnswer + ">" + after
	pieces, _, err := encoder.Encode([]policy.Message{
		{Role: policy.User, Text: k.Observation.Text, Images: k.Observation.Images}, {Role: policy.Assistant, Text: text},
	})
	if err != nil {
		return nil, err
	}
	for _, p := range slices.Backward(pieces) {
		if p.Response {
			return &policy.Completion{Tokens: p.Tokens, Text: text, Stop: policy.StopEnd}, nil
		}
	}
	return nil, errors.New("the policy encodes no response")
}

// writeJSON writes a file atomically.
func writeJSON(path string, v any) error {
	raw, err := json.MarshalIndent(v, "", " ")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o755)
	}
	if err == nil {
		err = durable.WriteFile(path, append(raw, '\n'))
	}
	if err != nil {
		return fmt.Errorf("credit: %w", err)
	}
	return nil
}
