package builtin

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env"
	"vagen/env/internal/envtest"
	"vagen/internal/golden"
	"vagen/internal/testkit"
	"vagen/reward"
)

// snapshotKinds are environments with an agent's responses: those of the soak test, and
// option sets with other states.
func snapshotKinds(t testing.TB) []soakKind {
	t.Helper()
	return append(golden.Table[[]soakKind](t, "soak.yaml"), golden.Table[[]soakKind](t, "snapshots.yaml")...)
}

// say writes the response of a turn; some have no valid format.
func (k soakKind) say(e env.Env, r *rand.Rand) string {
	p := env.ParserOf(e)
	if p == nil || r.IntN(6) == 0 {
		return "<answer>" + k.Actions[0]
	}
	return p.Compose(func(section string) string {
		if section == reward.SectionAnswer {
			return k.Actions[r.IntN(len(k.Actions))]
		}
		return "The box is above, the target is below and left."
	})
}

// TestEpisodesPlayOnFromASnapshotOfEveryTurn: in the same instance and in a new one, with
// equal observations, images, rewards, claims and metrics, and equal snapshots.
func TestEpisodesPlayOnFromASnapshotOfEveryTurn(t *testing.T) {
	const turns = 6
	registry := Registry()
	open := func(k soakKind) env.Env {
		e, err := registry.New(k.Name, k.Config)
		require.NoError(t, err, "%s %v", k.Name, k.Config)
		return e
	}
	acted := map[string]bool{}
	for i, k := range snapshotKinds(t) {
		for _, seed := range []int64{1, 12} {
			what := fmt.Sprintf("%s %v, seed %d", k.Name, k.Config, seed)
			r := rand.New(rand.NewPCG(uint64(seed), uint64(i)))
			a, plain := open(k), open(k)
			var said []string
			var states [][]byte
			var want []env.Outcome
			_, err := a.Reset(t.Context(), seed)
			require.NoError(t, err, what)
			_, err = plain.Reset(t.Context(), seed)
			require.NoError(t, err, what)
			for n := range turns {
				states = append(states, snapshotOf(t, a, what))
				said = append(said, k.say(a, r))
				out, err := a.Step(t.Context(), said[n])
				require.NoError(t, err, what)
				want = append(want, out)
				acted[k.Name] = acted[k.Name] || out.Turn["action_is_effective"] == 1 || k.Name == "primitive_skill" &&
					out.Turn["env_step"] > 1
				without := envtest.Play(t, plain, said[n])
				require.Equal(t, out, without, "%s: a snapshot changes nothing", what)
			}
			end := snapshotOf(t, a, what)
			for n, state := range states {
				fresh := open(k)
				for _, e := range []env.Env{a, fresh} {
					require.NoError(t, e.(env.Snapshotter).Restore(t.Context(), state), what)
					require.Equal(t, state, snapshotOf(t, e, what))
					for m := n; m < turns; m++ {
						out, err := e.Step(t.Context(), said[m])
						require.NoError(t, err, what)
						require.Equal(t, want[m], out, "%s: turn %d from turn %d", what, m, n)
					}
					require.Equal(t, end, snapshotOf(t, e, what))
				}
				require.NoError(t, fresh.Close())
				_, err := fresh.(env.Snapshotter).Snapshot()
				require.ErrorIs(t, err, env.ErrClosed)
				require.ErrorIs(t, fresh.(env.Snapshotter).Restore(t.Context(), state), env.ErrClosed)
			}
		}
	}
	for _, k := range Kinds() {
		if k.Defaults != nil {
			require.True(t, acted[k.Name], "no turn of %s had an effect", k.Name)
		}
	}
}

func snapshotOf(t testing.TB, e env.Env, what string) []byte {
	t.Helper()
	state, err := e.(env.Snapshotter).Snapshot()
	require.NoError(t, err, what)
	return state
}

// TestASnapshotFitsItsOwnOptionsOnly: snapshots of other environments and options are
// refused, and the state does not change.
func TestASnapshotFitsItsOwnOptionsOnly(t *testing.T) {
	registry := Registry()
	kinds := snapshotKinds(t)
	envs := make([]env.Env, len(kinds))
	states := make([][]byte, len(kinds))
	for i, k := range kinds {
		var err error
		envs[i], err = registry.New(k.Name, k.Config)
		require.NoError(t, err)
		_, err = envs[i].(env.Snapshotter).Snapshot()
		require.ErrorIs(t, err, env.ErrNotReset)
		envtest.Reset(t, envs[i], 3)
		states[i] = snapshotOf(t, envs[i], k.Name)
	}
	for i := range envs {
		for j := range states {
			err := envs[i].(env.Snapshotter).Restore(t.Context(), states[j])
			if i == j {
				require.NoError(t, err)
				continue
			}
			require.ErrorIs(t, err, env.ErrSnapshot, "%v in %v", kinds[j], kinds[i])
		}
		require.Equal(t, states[i], snapshotOf(t, envs[i], ""))
		over, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, envs[i].(env.Snapshotter).Restore(over, states[i]), context.Canceled)
	}
}

// TestReseededWorldsDrawAnew: equal seeds give equal turns, others differ, and the current
// state stays.
func TestReseededWorldsDrawAnew(t *testing.T) {
	registry := Registry()
	for _, k := range []soakKind{
		{"frozenlake", envtest.Options("is_slippery: true, size: 8, p: 0.95"), []string{"Left", "Down"}},
		{"frozenlake", envtest.Options("slip_prob: 0.5, size: 8, p: 0.95"), []string{"Left", "Down"}},
		{"blackjack", envtest.Options("render_mode: text"), []string{"Hit"}},
	} {
		e, err := registry.New(k.Name, k.Config)
		require.NoError(t, err)
		require.ErrorIs(t, e.(env.Reseeder).Reseed(1), env.ErrNotReset)
		envtest.Reset(t, e, 5)
		state := snapshotOf(t, e, k.Name)
		seen := map[string]bool{}
		for seed := range uint64(12) {
			var ends []string
			for range 2 {
				require.NoError(t, e.(env.Snapshotter).Restore(t.Context(), state))
				require.NoError(t, e.(env.Reseeder).Reseed(seed))
				r := rand.New(rand.NewPCG(9, 9))
				text := ""
				for range 4 {
					out := envtest.Play(t, e, k.say(e, r))
					text += out.Observation.Text
				}
				ends = append(ends, text)
			}
			require.Equal(t, ends[0], ends[1])
			seen[ends[0]] = true
		}
		require.Greater(t, len(seen), 3, k.Name)
	}
}

// FuzzRestore: any bytes give an error or a state that can be continued. With
// inner, the bytes are a state in an envelope whose checksum and options are right.
func FuzzRestore(f *testing.F) {
	registry := Registry()
	kinds := snapshotKinds(f)
	valid := make([][]byte, len(kinds))
	fuzzing := flag.Lookup("test.fuzz").Value.String() != ""
	for i, k := range kinds {
		e, err := registry.New(k.Name, k.Config)
		require.NoError(f, err)
		_, err = e.Reset(f.Context(), 3)
		require.NoError(f, err)
		_, err = e.Step(f.Context(), k.say(e, rand.New(rand.NewPCG(1, 1))))
		require.NoError(f, err)
		valid[i] = snapshotOf(f, e, k.Name)
		f.Add(uint8(i), false, valid[i])
		f.Add(uint8(i), false, valid[i][:len(valid[i])/2])
		whole := testkit.JSON[map[string]json.RawMessage](f, valid[i])
		for j, state := range hostileStates(whole["state"]) {
			if !fuzzing || j%40 == 0 { // all of them would take a minute of a fuzzer's time
				f.Add(uint8(i), true, state)
			}
		}
	}
	f.Add(uint8(0), false, []byte(`{"version":1,"state":null}`))
	f.Add(uint8(0), false, bytes.Repeat([]byte(`[`), 1<<16))
	f.Fuzz(func(t *testing.T, kind uint8, inner bool, raw []byte) {
		i := int(kind) % len(kinds)
		k := kinds[i]
		e, err := registry.New(k.Name, k.Config)
		require.NoError(t, err)
		if inner {
			if raw = sealed(valid[i], raw); raw == nil {
				return
			}
		}
		if err := e.(env.Snapshotter).Restore(t.Context(), raw); err != nil {
			require.ErrorIs(t, err, env.ErrSnapshot)
			_, err := e.Step(t.Context(), "")
			require.ErrorIs(t, err, env.ErrNotReset, "a refused snapshot changes nothing")
			return
		}
		r := rand.New(rand.NewPCG(2, 2))
		for range 3 {
			envtest.Play(t, e, k.say(e, r))
		}
		snapshotOf(t, e, k.Name)
	})
}

// sealed puts a state into a valid snapshot; nil if it is not JSON.
func sealed(valid, state []byte) []byte {
	var whole map[string]json.RawMessage
	var compact bytes.Buffer
	if json.Compact(&compact, state) != nil || json.Unmarshal(valid, &whole) != nil {
		return nil
	}
	sum := sha256.Sum256(compact.Bytes())
	whole["sum"], _ = json.Marshal(hex.EncodeToString(sum[:]))
	whole["state"] = compact.Bytes()
	out, err := json.Marshal(whole)
	if err != nil {
		return nil
	}
	return out
}

// hostileStates are a state as it is, and with each of its fields missing, negative, huge,
// empty or of another kind.
func hostileStates(state []byte) [][]byte {
	out := [][]byte{state, []byte("null"), []byte("{}"), []byte("[]")}
	var fields map[string]json.RawMessage
	if json.Unmarshal(state, &fields) != nil {
		return out
	}
	for name, was := range fields {
		for _, is := range []string{"null", "-1", "2", "99", "1e300", "9223372036854775807", `""`, `"x"`, "[]", "[[]]",
			`[""]`, "{}", "true", `["####","####","####"]`,
			`[{"Value":1,"Face":65,"Suit":9},{"Value":1,"Face":65,"Suit":1}]`, `{"Row":-5,"Col":3}`} {
			fields[name] = json.RawMessage(is)
			if raw, err := json.Marshal(fields); err == nil {
				out = append(out, raw)
			}
		}
		fields[name] = was
	}
	return out
}
