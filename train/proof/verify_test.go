package proof_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/internal/traintest"
	"vagen/policy"
	"vagen/train/config"
	"vagen/train/proof"
	"vagen/train/run"
)

// text is a report with one line per check.
func text(r *proof.Report) string {
	var out strings.Builder
	for _, c := range r.Checks {
		fmt.Fprintf(&out, "%s: %s: %s\n", c.What, c.State, c.Detail)
	}
	return out.String()
}

// TestEveryChangedFileIsFoundAndNamed changes each kind of file in turn.
func TestEveryChangedFileIsFoundAndNamed(t *testing.T) {
	t.Parallel()
	made := whole(t, recorded())
	for _, x := range []struct {
		path, want string
		change     func(string) string
	}{
		{"config.yaml", "config.yaml has SHA-256", flip},
		{"metrics.jsonl", "line 2 is not the recorded event: save of step 1", replace(`"save","step":1`, `"save","step":9`)},
		{"metrics.jsonl", "is not the recorded event: step of step 1", replace(`"train/score":`, `"train/scorf":`)},
		{"metrics.jsonl", "line 1 is not the recorded event", swap(0, 2)},
		{"metrics.jsonl", "line 3 is not the recorded event", without(2)},
		{"metrics.jsonl", "1 events are missing at the end, the first is save of step 6", without(-1)},
		{"metrics.jsonl", "is not in the chain", func(s string) string { return s + `{"kind":"step","step":7}` + "\n" }},
		{"metrics.jsonl", "line 1: ", func(s string) string { return "x" + s }},
		{"rollouts/step_3.parquet", "rollouts/step_3.parquet has SHA-256", flip},
		{"checkpoints/step_5/actor/policy", "checkpoints/step_5/actor/policy has SHA-256", flip},
		{"checkpoints/step_5/state.json", "checkpoints/step_5/state.json has SHA-256", flip},
		{"checkpoints/step_5/manifest.json", "manifest.json of step 5 has SHA-256", flip},
		{proof.FileName, "line 1: the chain is damaged: its SHA-256 is", replace(`"seed":5`, `"seed":6`)},
		{proof.FileName, "line 4: the chain is damaged: it follows a line with hash", without(3)},
		{proof.FileName, "line 3: the chain is damaged: it follows a line with hash", swap(2, 3)},
		{proof.FileName, "the first line is not the start of a run", without(0)},
		{proof.FileName, "the first line is not the start of a run", func(string) string { return "" }},
		{proof.FileName, "is not in the chain", func(s string) string { return s[:len(s)/2] }},
		{proof.FileName, "the chain is damaged", func(s string) string { return s + "x\n" }},
	} {
		dir := filepath.Join(t.TempDir(), "run")
		require.NoError(t, os.CopyFS(dir, os.DirFS(made)))
		require.Empty(t, verify(t, dir).Faults(), "a copy in another place is the same run")
		edit(t, x.change, dir, x.path)
		r := verify(t, dir)
		require.NotEmpty(t, r.Faults(), x.path)
		require.Contains(t, text(r), x.want, x.path)
	}
}

// TestRemovedFilesAreReportedAsMissing: retention and the user remove files, which is no
// fault. The newest checkpoint has to exist.
func TestRemovedFilesAreReportedAsMissing(t *testing.T) {
	dir := whole(t, recorded())
	require.NoError(t, os.Remove(filepath.Join(dir, "rollouts", "step_2.parquet")))
	r := verify(t, dir)
	require.Empty(t, r.Faults())
	require.Contains(t, text(r), "episodes: missing: rollouts/step_2.parquet does not exist any more\n")
	require.Contains(t, text(r), "checkpoints: missing: 3 were removed")
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "checkpoints", "step_6")))
	r = verify(t, dir)
	require.Contains(t, text(r), "checkpoints: fault: the newest one, of step 6, is missing\n")
	require.Contains(t, text(r), "checkpoints: missing: 3 were removed", "the newest one is not among those")
}

// writing is a context that lets a run write when the check asks whether it has ended.
type writing struct {
	context.Context
	write func()
}

func (w writing) Err() error {
	w.write()
	return w.Context.Err()
}

// TestARunMayWriteDuringTheCheck: the check is repeated. If the run writes in all of them, what only one
// finds is no fault.
func TestARunMayWriteDuringTheCheck(t *testing.T) {
	c := recorded()
	one := 1
	c.Trainer.KeepActors, c.Trainer.KeepCritics = &one, &one
	dir := whole(t, c)
	chain := filepath.Join(dir, proof.FileName)
	all := testkit.Read(t, chain)
	at := strings.Index(string(all), `{"kind":"step","step":6`)
	require.Positive(t, at)
	write := func(path string, text []byte) { testkit.Write(t, path, text) }

	write(chain, all[:at])
	require.Contains(t, text(verify(t, dir)), "checkpoints: fault: the newest one, of step 5, is missing\n")
	r, err := proof.Verify(writing{t.Context(), func() { write(chain, all) }}, dir)
	require.NoError(t, err)
	require.Empty(t, append(r.Faults(), r.Unfinished()...), "the second check has the whole chain")

	edit(t, flip, dir, "rollouts", "step_3.parquet")
	n := 0
	r, err = proof.Verify(writing{t.Context(), func() {
		n++
		write(filepath.Join(dir, "rollouts", "step_2.parquet"), []byte(fmt.Sprint(n)))
		head := proof.Parse(all).Head()
		all = append(all, proof.Sealed(`{"kind":"file","step":6,"previous":"`+head+`"}`)+"\n"...)
		write(chain, all)
	}}, dir)
	require.NoError(t, err)
	require.Len(t, r.Faults(), 1, text(r))
	require.Contains(t, text(r), "episodes: fault: rollouts/step_3.parquet has SHA-256")
	require.Contains(t, text(r), "episodes: unfinished: rollouts/step_2.parquet has SHA-256")
	require.Contains(t, text(r), "proof.jsonl: unfinished: the run wrote during the check\n")
}

// TestKeptPoliciesAreChecked: of a removed checkpoint the policy can be kept.
func TestKeptPoliciesAreChecked(t *testing.T) {
	c := recorded()
	one := 1
	c.Trainer.KeepCritics, c.Critic.Kind = &one, "separate"
	dir := whole(t, c)
	policy := []string{dir, "checkpoints", "actor_step_4", "policy"}
	require.FileExists(t, filepath.Join(policy...))
	require.Contains(t, text(verify(t, dir)), "of these, 2 policies were kept and equal the record")
	edit(t, flip, policy...)
	require.Contains(t, text(verify(t, dir)), "checkpoints: fault: checkpoints/actor_step_4/policy has SHA-256")
}

// TestAStoppedRunVerifiesBeforeAndAfterItResumes stops a run before each event. Its chain
// continues when it resumes, and says so.
func TestAStoppedRunVerifiesBeforeAndAfterItResumes(t *testing.T) {
	t.Parallel()
	made := whole(t, recorded())
	for event := range 14 {
		dir := filepath.Join(t.TempDir(), "run")
		require.ErrorIs(t, train(t, dir, recorded(), stopAt(event)), traintest.ErrBroken)
		require.Empty(t, verify(t, dir).Faults(), "stopped before event %d", event)
		edit(t, func(s string) string { return s + `{"kind":"st` }, dir, proof.FileName) // the end of a write
		r := verify(t, dir)
		require.Empty(t, r.Faults())
		require.Contains(t, text(r), "the last line is incomplete")
		require.NoError(t, train(t, dir, recorded(), nil))
		r = verify(t, dir)
		require.Empty(t, r.Faults(), "resumed before event %d", event)
		require.Equal(t, 2, r.Sessions)
		require.Contains(t, text(r), "session: ok: resumed after step ")
		require.Equal(t, []int{1, 2, 3, 4, 5, 6}, r.Steps())
		b, err := proof.Bisect(t.Context(), made, dir)
		require.NoError(t, err)
		require.Nil(t, b.First)
		require.Equal(t, 6, b.Compared)
	}
}

// TestARepeatedStepMustBeEqual: a resume repeats the steps after the checkpoint. A result
// that differs is a fault.
func TestARepeatedStepMustBeEqual(t *testing.T) {
	t.Parallel()
	c := recorded()
	c.Trainer.SaveFreq = 3
	dir := filepath.Join(t.TempDir(), "run")
	require.ErrorIs(t, train(t, dir, c, stopAt(8)), traintest.ErrBroken)
	require.NoError(t, train(t, dir, c, func(_ *run.Run, b *traintest.Bandit) {
		b.Alter = func(_ *policy.Batch, s *policy.Stats) error { s.Entropy++; return nil }
	}))
	require.Contains(t, text(verify(t, dir)),
		"proof.jsonl: fault: step (metrics) of step 4 was repeated after a resume, and differs")
}

// TestAChangedSettingIsRecorded, and steps before and after it are not compared.
func TestAChangedSettingIsRecorded(t *testing.T) {
	c := recorded()
	dir := filepath.Join(t.TempDir(), "run")
	require.ErrorIs(t, train(t, dir, c, stopAt(6)), traintest.ErrBroken)
	c.Algorithm.TurnGamma, c.Trainer.AllowChange = 0.5, true
	require.NoError(t, train(t, dir, c, nil))
	r := verify(t, dir)
	require.Empty(t, r.Faults())
	require.Regexp(t, `resumed after step \d with changed settings: algorithm\.\w+: 0\.9 → 0\.5`, text(r))
}

// TestARollbackIsPartOfTheChain: undone steps have other draws, so they are not compared.
func TestARollbackIsPartOfTheChain(t *testing.T) {
	c := recorded()
	c.Trainer.Steps = 8
	c.Stability.Spike = config.SpikeConfig{Metric: "actor/grad_norm", Window: 4, Deviations: 20, Action: "rollback",
		MaxRollbacks: 2}
	dir := filepath.Join(t.TempDir(), "run")
	var bad uint64
	updates := 0
	require.NoError(t, train(t, dir, c, func(_ *run.Run, b *traintest.Bandit) {
		b.Alter = func(batch *policy.Batch, s *policy.Stats) error {
			if updates++; updates == 13 { // in the seventh step
				bad = batch.Seed
			}
			if batch.Seed == bad && bad != 0 {
				s.GradNorm = math.Inf(1)
			}
			return nil
		}
	}))
	require.Contains(t, testkit.Text(t, filepath.Join(dir, proof.FileName)), `"kind":"rollback"`)
	r := verify(t, dir)
	require.Empty(t, r.Faults(), text(r))
	require.Equal(t, []int{1, 2, 3, 4, 5, 6, 7, 8}, r.Steps())
}

// TestAnOldRunGetsAClearMessage: a run without a chain cannot be verified. When it is
// resumed, the chain covers the rest, and a warning and a fault say so.
func TestAnOldRunGetsAClearMessage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	require.ErrorIs(t, train(t, dir, recorded(), stopAt(6)), traintest.ErrBroken)
	require.NoError(t, os.Remove(filepath.Join(dir, proof.FileName)))
	_, err := proof.Verify(t.Context(), dir)
	testkit.Error(t, err, proof.ErrNoRecord,
		"the file was removed, or the run was trained by a version of vagen before it")
	log := resumeLogged(t, dir, recorded())
	require.Contains(t, log, "the run has metrics, but no record of them")
	require.Regexp(t, `metrics.jsonl: not checked: the first \d events are older than the chain`, text(verify(t, dir)))
	require.Contains(t, text(verify(t, dir)), "the first line is a resume after step ")
	require.NotContains(t, resumeLogged(t, dir, recorded()), "no record", "the second resume")
	_, err = proof.Verify(t.Context(), t.TempDir())
	require.ErrorContains(t, err, "contains no run")
}

// FuzzParse: no content of the file makes Parse or Verify panic.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"kind":"start","step":0,"kept":-5,"previous":"","hash":"`), "x")
	f.Add([]byte("{}\n\n"), `{"kind":"rollback"}`)
	f.Fuzz(func(t *testing.T, raw []byte, body string) {
		proof.Parse(raw)
		dir := t.TempDir()
		lines := string(raw) + "\n" + proof.Sealed(`{"kind":"start","kept":1,"step":-1}`) + "\n" + proof.Sealed(body) + "\n"
		for _, text := range []string{lines, strings.Repeat(proof.Sealed(body)+"\n", 2)} {
			testkit.Write(t, filepath.Join(dir, proof.FileName), text)
			if _, err := proof.Verify(t.Context(), dir); err != nil {
				require.ErrorContains(t, err, "proof: ")
			}
		}
	})
}
