package view

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"

	"vagen/internal/redact"
	"vagen/rollout"
	"vagen/rollout/store"
	"vagen/train/rundir"
)

// maxShown limits an episode in readable form in bytes.
const maxShown = 16 << 20

var (
	shownPattern = regexp.MustCompile(`^episode_(0|[1-9]\d{0,5})\.json$`)
	// shownImage are the images of store.WriteEpisode.
	shownImage = regexp.MustCompile(`^episode_\d{1,6}_turn_\d{1,6}_\d{1,6}\.png$`)
)

// shownFolder is the folder, in that of a run, with the readable episodes of a step.
func shownFolder(step int) string {
	return path.Join(rundir.Shown, rundir.StepPrefix+strconv.Itoa(step))
}

// loadShown reads the summaries of a folder episodes/step_<n>. Episodes are numbered as
// groups of one.
func (s *source) loadShown(run string) {
	root, err := os.OpenRoot(run)
	if err != nil {
		s.problem = sentence("The episodes of step %d cannot be read: %v", s.step, err)
		return
	}
	defer root.Close()
	entries, err := readDir(root, shownFolder(s.step))
	if err != nil {
		s.problem = sentence("The episodes of step %d cannot be read: %v", s.step, err)
		return
	}
	numbers := []int{}
	for _, e := range entries {
		if m := shownPattern.FindStringSubmatch(e.Name()); m != nil && e.Type().IsRegular() {
			n, _ := strconv.Atoi(m[1])
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	for _, n := range numbers {
		name := fmt.Sprintf("episode_%d.json", n)
		e, err := readShown(root, path.Join(shownFolder(s.step), name))
		if err != nil {
			s.problem = sentence("%s of step %d cannot be read: %v", name, s.step, err)
			continue
		}
		s.names = append(s.names, name)
		s.summaries = append(s.summaries, store.Summary{
			Step: s.step, Env: e.Env, Seed: e.Seed, Group: n, End: rollout.End(e.End), Error: e.Error, Success: e.Success,
			Reward: e.Return, Turns: len(e.Turns),
		})
	}
}

func readShown(root *os.Root, name string) (*store.Shown, error) {
	raw, err := readFile(root, name, maxShown)
	if err != nil {
		return nil, err
	}
	e := new(store.Shown)
	return e, json.Unmarshal(raw, e)
}

// detailShown reads an episode in readable form.
func (r *run) detailShown(root *os.Root, e *entry, a *episodeAnswer) error {
	folder := shownFolder(e.source.step)
	found, err := readShown(root, path.Join(folder, e.names[e.row]))
	if err != nil {
		return err
	}
	a.Error = redact.Text(found.Error)
	for i := range found.Turns {
		t := &found.Turns[i]
		turn := turnAnswer{
			Observation: t.Observation, Images: make([]*string, len(t.Images)), Response: t.Response, Stop: t.Stop,
			Actions: emptyIfNil(t.Actions), Reward: numbers(t.Reward), Metrics: numbers(t.Metrics),
			Claims: []claimAnswer{},
		}
		for j, name := range t.Images {
			if shownImage.MatchString(name) {
				turn.Images[j] = r.imageURL(root, path.Join(folder, name), imageShown, e.source.step, name)
			}
		}
		a.Turns = append(a.Turns, turn)
	}
	a.problem(
		"This validation episode was saved in readable form, without tokens; trainer.validation_data_dir stores all of them with their tokens.")
	return nil
}
