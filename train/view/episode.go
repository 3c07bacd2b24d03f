package view

import (
	"context"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path"
	"regexp"
	"strconv"

	"vagen/env"
	"vagen/internal/redact"
	"vagen/rollout"
	"vagen/rollout/store"
)

// episodeAnswer is an episode with everything that was recorded of it.
type episodeAnswer struct {
	listed
	Config   any               `json:"config"`
	Metrics  map[string]number `json:"metrics"`
	Turns    []turnAnswer      `json:"turns"`
	Rows     []rowAnswer       `json:"rows"`
	Problems []string          `json:"problems"`
}

type turnAnswer struct {
	Row         int               `json:"row"`
	Observation string            `json:"observation"`
	Images      []*string         `json:"images"`
	Cut         bool              `json:"cut"`
	Response    string            `json:"response"`
	Stop        string            `json:"stop"`
	Format      bool              `json:"format"`
	Actions     []string          `json:"actions"`
	Reward      map[string]number `json:"reward"`
	Metrics     map[string]number `json:"metrics"`
	Claims      []claimAnswer     `json:"claims"`
}

// claimAnswer is what a response says about the state, beside the state.
type claimAnswer struct {
	Kind  string  `json:"kind"`
	Said  string  `json:"said"`
	Truth string  `json:"truth"`
	Score *number `json:"score"`
}

var keyPattern = regexp.MustCompile(`^(train|val|measured)/(0|[1-9]\d{0,8})/(-?\d{1,19})-(-?\d{1,19})$`)

// find returns the episode of a request. The run's lock is held.
func (r *run) find(root *os.Root, key string) (*entry, error) {
	m := keyPattern.FindStringSubmatch(key)
	if m == nil {
		return nil, badRequest("key: %q is not that of an episode, such as train/40/0-3", clip(key, 60))
	}
	r.loadConfig(root)
	r.episodes.refresh(r, root)
	step, _ := strconv.Atoi(m[2])
	group, _ := strconv.Atoi(m[3])
	index, _ := strconv.Atoi(m[4])
	for _, readable := range []bool{false, true} {
		s := r.episodes.files[fileKey{m[1], step, readable}]
		if s == nil {
			continue
		}
		for i := range s.summaries {
			if e := &s.summaries[i]; e.Group == group && e.Index == index {
				return &entry{s, e, i}, nil
			}
		}
		if s.problem != "" {
			return nil, errors.New(s.problem)
		}
	}
	return nil, notFound("there is no episode %s", key)
}

func (r *run) episodeAnswer(ctx context.Context, q url.Values) (*episodeAnswer, error) {
	a, err := r.episodeOf(ctx, q.Get("key"))
	if err != nil || len(a.Rows) == 0 {
		return a, err
	}
	// Not while the run is locked: reading a tokenizer may take long.
	a.problem(r.tokenTexts(ctx, a.Rows))
	return a, nil
}

// problem adds a problem, if there is one.
func (a *episodeAnswer) problem(text string) {
	if text != "" {
		a.Problems = append(a.Problems, text)
	}
}

// newEpisodeAnswer is the answer without what an episode's file adds to the list.
func newEpisodeAnswer(l listed, problems ...string) *episodeAnswer {
	return &episodeAnswer{listed: l, Config: map[string]any{}, Metrics: map[string]number{}, Turns: []turnAnswer{},
		Rows: []rowAnswer{}, Problems: emptyIfNil(problems)}
}

// openEpisode finds an episode in the folder of the run, which it locks until done is called.
func (r *run) openEpisode(key string) (root *os.Root, e *entry, done func(), err error) {
	if root, done, err = r.open(); err != nil {
		return nil, nil, nil, notFound("the run's folder does not exist any more")
	}
	if e, err = r.find(root, key); err != nil {
		done()
	}
	return root, e, done, err
}

// episodeOf is the answer without the texts of tokens.
func (r *run) episodeOf(ctx context.Context, key string) (*episodeAnswer, error) {
	root, e, done, err := r.openEpisode(key)
	if err != nil {
		return nil, err
	}
	defer done()
	a := newEpisodeAnswer(r.list(root, e))
	if e.readable {
		return a, r.detailShown(root, e, a)
	}
	return a, r.detail(ctx, e, a)
}

// detail reads an episode with its tokens.
func (r *run) detail(ctx context.Context, e *entry, a *episodeAnswer) error {
	t, err := r.trajectory(e)
	if err != nil {
		return err
	}
	if t.Err != nil {
		a.Error = redact.Text(t.Err.Error())
	}
	if t.Config != nil {
		a.Config = redact.Value("config", t.Config)
	}
	a.Metrics = numbers(t.Metrics)
	folder := r.episodes.folders[e.kind]
	missing := 0
	if images, err := os.OpenRoot(folder); err == nil {
		defer images.Close()
		for k := range t.Turns {
			turn := r.turn(images, e, &t.Turns[k])
			for _, url := range turn.Images {
				if url == nil {
					missing++
				}
			}
			a.Turns = append(a.Turns, turn)
		}
	}
	if missing > 0 {
		a.problem(sentence("%d images of the episode are not stored (trainer.log_image)", missing))
	}
	truths, problem := replay(ctx, t)
	a.problem(problem)
	for k := range t.Turns {
		a.Turns[k].Claims = claims(t, k, truths)
	}
	scores, problem := r.scoresOf(e)
	a.problem(problem)
	for i := range t.Rows {
		row, problem := layOutRow(t, i, scores[i])
		a.problem(problem)
		a.Rows = append(a.Rows, row)
	}
	return nil
}

// trajectory reads an episode without its images.
func (r *run) trajectory(e *entry) (*rollout.Trajectory, error) {
	in, err := e.open(r.episodes.folders[e.kind])
	if err != nil {
		return nil, err
	}
	defer in.Close()
	in.NamesOnly()
	s, err := in.At(e.row)
	if err != nil {
		return nil, err
	}
	if s.Group != e.Group || s.Index != e.Index {
		return nil, errors.New("the file of episodes was replaced meanwhile; load the page again")
	}
	return s.Trajectory, nil
}

// turn describes a turn.
func (r *run) turn(images *os.Root, e *entry, t *rollout.Turn) turnAnswer {
	a := turnAnswer{
		Row: t.Row, Observation: t.Observation.Text, Images: []*string{}, Cut: t.Cut, Response: t.Response,
		Stop: string(t.Stop), Format: t.Parsed.FormatCorrect,
		Actions: emptyIfNil(t.Parsed.Actions), Reward: map[string]number{}, Metrics: numbers(t.Metrics),
		Claims: []claimAnswer{},
	}
	for _, p := range t.Reward {
		a.Reward[p.Name] += number(p.Value)
	}
	for _, im := range t.Observation.Images {
		var url *string
		if name, ok := im.(store.Absent); ok && imagePattern.MatchString(string(name)+".png") {
			file := string(name) + ".png"
			url = r.imageURL(images, path.Join(imageFolder, file), e.kind, e.source.step, file)
		}
		a.Images = append(a.Images, url)
	}
	return a
}

func numbers(m env.Metrics) map[string]number {
	out := make(map[string]number, len(m))
	for name, x := range m {
		out[name] = number(x)
	}
	return out
}

// scoresOf reads the scores of an episode by row. The run's lock is held.
func (r *run) scoresOf(e *entry) (map[int]*store.Scores, string) {
	if e.kind == kindVal {
		return nil, ""
	}
	all, err := r.credit.scores(r, e.fileKey)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, "The numbers of the tokens were not recorded; trainer.rollout_data_scores records them."
	case err != nil:
		return nil, sentence("The numbers of the tokens cannot be read: %v", err)
	}
	out := map[int]*store.Scores{}
	for i := range all {
		if s := &all[i]; s.Group == e.Group && s.Index == e.Index {
			out[s.Row] = s
		}
	}
	return out, ""
}
