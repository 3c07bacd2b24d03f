package policy

import (
	"context"
	"errors"
)

// The abilities of policies and learners: what they can do besides Policy and Learner. Callers look
// for them with As, so that a wrapper passes them on with one method, Unwrap.
//
//	to play        Counter, Aligner, Resumer, Bounded
//	to encode      Encoder, Templated, ToolEncoder, ToolPrompter, SystemEncoder
//	elsewhere      PolicySnapshotter, StepTracker, EngineSampler, WorkerSource, RowChecker, ScoreChecker
//	to be saved    Snapshotter, Restorer, Exporter
//	to be recorded InputLister, BackendNamer, MetricsReporter

// Unwrapper is a wrapper of a policy or learner that passes on its abilities. What the wrapper
// implements itself comes first. A wrapper that gives a method another meaning, such as one that
// renames conversations, implements the abilities that depend on it, or has no Unwrap.
type Unwrapper interface {
	// Unwrap returns the policy or learner that is wrapped.
	Unwrap() Policy
}

// As returns a policy, learner or encoder as one with the ability A, or the first one with it
// that is wrapped: see Unwrapper. ok is false if none has it.
func As[A any](p any) (ability A, ok bool) {
	for p != nil {
		if a, ok := p.(A); ok {
			return a, true
		}
		w, wraps := p.(Unwrapper)
		if !wraps {
			break
		}
		p = w.Unwrap()
	}
	return ability, false
}

// Counter is a policy that can count the tokens of a prompt before generation. Token
// budgets need it.
type Counter interface {
	// Count returns the number of tokens that Generate would read before its response
	// to the prompt, including image placeholders. Policies that do not tokenise may
	// estimate it.
	Count(p Prompt) (int, error)
}

// Aligner is a policy that maps a response's tokens to positions in its text.
type Aligner interface {
	// Ends returns, for each token of a response, the byte position in the response's
	// text up to which the text is complete after that token. The text that the chat template
	// opened (see Completion.Text) comes before that of the first token. Positions beyond the
	// text mean an end-of-turn token.
	Ends(tokens []int32) []int
}

// Recorded is a conversation as it was recorded: token in, token out.
type Recorded struct {
	Conversation uint64  // as in Prompt
	Tokens       []int32 // read and written so far, image placeholders included
	Images       []Image // of Tokens, in order
}

// Resumer is a policy that can continue recorded conversations.
type Resumer interface {
	// Resume opens conversations with recorded tokens. Nothing is generated: the first
	// prompt with the key continues them, and Generate reads the tokens before the
	// prompt's messages. They are not part of the completion's Context. If that prompt
	// has no messages, the response follows the recorded tokens directly. Resuming the
	// same key again before that prompt replaces the tokens; the key of a conversation
	// that has been generated for is an error. Forget frees them. After an error no
	// conversation is resumed.
	Resume(conversations ...Recorded) error
}

// ErrResume is wrapped by errors about recorded conversations that cannot be continued.
var ErrResume = errors.New("conversation cannot be resumed")

// Bounded is a policy or encoder with a maximum length of conversations.
type Bounded interface {
	// MaxPositions returns the maximum number of tokens; 0 is no limit.
	MaxPositions() int
}

// Piece is a run of tokens of one origin.
type Piece struct {
	Tokens   []int32
	Response bool // written by the assistant; else context
}

// Encoder converts a finished conversation, including the assistant's messages, to the
// tokens that the policy would have read and written.
type Encoder interface {
	// Encode returns the pieces in order, responses with their end-of-turn token,
	// and the images of the conversation. The text with which the chat template opens a
	// response belongs to the context; a response that does not begin with it is an error,
	// unless it is Unlearned: then the context ends as the template shows a finished response.
	Encode(messages []Message) ([]Piece, []Image, error)
}

// Templated is an Encoder whose chat template is known.
type Templated interface {
	Encoder
	// Opened returns the text with which the template begins every response, such as
	// <think>; "" for none. Completion.Text begins with it.
	Opened() string
	// RewritesHistory reports that the template shows earlier responses otherwise than they
	// were written. The policy reads them as they were written.
	RewritesHistory() bool
	// Response returns the text of a response's tokens, as in Completion.Text.
	Response(tokens []int32) string
}

// ToolEncoder is an Encoder whose chat template shows definitions and calls of tools, both as JSON.
type ToolEncoder interface {
	// ToolCalls returns the text of a response that calls tools, and has its thought in <think> at the beginning of the
	// text as the template shows it. Without calls, "", it has the thought alone.
	ToolCalls(text, calls string) (string, error)
	// WithTools returns the encoder of conversations with definitions of tools.
	WithTools(tools string) (Encoder, error)
}

// ToolPrompter is a policy whose chat template shows definitions, calls and results of tools. Its prompts may have
// messages of the role Tool after a response, or after each other.
type ToolPrompter interface {
	// ToolCalls is that of ToolEncoder.
	ToolCalls(text, calls string) (string, error)
	// ToolSystem returns the text of a system message in which the template shows a text, "" for none, and definitions
	// of tools, a JSON list. The error says that it does not show them there, or no results.
	ToolSystem(text, tools string) (string, error)
}

// SystemEncoder is an Encoder that can put a system message in front of a conversation that it has encoded.
type SystemEncoder interface {
	// EncodeSystem returns the tokens of a system message as the chat template shows one that no other message
	// follows. A template without such messages is an error.
	EncodeSystem(text string) ([]int32, error)
}

// PolicySnapshotter is a Learner that can copy its policy, so that rollouts are sampled from the
// copy while the learner continues training. With run.max_staleness above 1 several copies, of
// one policy or of several, sample at the same time.
type PolicySnapshotter interface {
	// SnapshotPolicy returns a copy of the current policy.
	SnapshotPolicy(ctx context.Context) (PolicySnapshot, error)
}

// PolicySnapshot is an immutable copy of a policy. It may be used from another goroutine than its
// learner, and samples what the learner would have sampled when it was copied, except with
// run.partial_rollouts, where servers get new weights meanwhile. It must be closed before its
// learner is.
type PolicySnapshot interface {
	Policy
	// Close frees the copy.
	Close() error
}

// StepTracker is a Learner whose policy writes the training step of its weights into
// Completion.Version.
type StepTracker interface {
	// Trained says that the weights are now those after the update of a training step; 0 is the
	// start of training.
	Trained(step int)
}

// EngineSampler is a Learner whose responses are sampled by other programs, so that the
// log-probs of sampling and training differ by more than rounding. A Trainer measures the
// difference in every step.
type EngineSampler interface {
	Learner
	// SampledByEngine has no effect; it marks the learner.
	SampledByEngine()
}

// WorkerSource is a policy, a learner or a copy of one, with which workers in other processes play.
type WorkerSource interface {
	// WorkerPolicy returns what they need to sample with the current weights.
	WorkerPolicy(ctx context.Context) ([]byte, error)
}

// RowChecker is a Learner that checks rows of results, which another process may have made up.
type RowChecker interface {
	// CheckRow returns an error unless the model can read the tokens and images of a row.
	CheckRow(tokens []int32, images []Image) error
}

// ScoreChecker is a Learner that says before the first rows which scores it does not have.
type ScoreChecker interface {
	// CheckScore returns the error with which Score would refuse a request, whatever the rows are.
	CheckScore(what ScoreRequest) error
}

// Snapshotter is a Learner whose checkpoints can be written while training continues.
type Snapshotter interface {
	// Snapshot copies the state that Save writes to host memory.
	Snapshot(ctx context.Context) (Snapshot, error)
}

// Snapshot is a learner's state at one moment. It may be saved once, from any goroutine,
// while the learner continues.
type Snapshot interface {
	// Save writes the same bytes as the learner's Save at that moment.
	Save(ctx context.Context, dir string) error
}

// Restorer is a Learner that can be restored from what Save wrote, so that runs can resume and
// roll back. Accumulated gradients are dropped.
type Restorer interface {
	Restore(ctx context.Context, dir string) error
}

// Exporter is a Learner that can export its policy alone, for other programs.
type Exporter interface {
	Export(ctx context.Context, dir string) error
}

// InputLister is a Learner that states which files it was opened from.
type InputLister interface {
	// Inputs returns paths of files, and of folders of models, by their use, such as model
	// or tokenizer. Their contents must not change while the learner is open.
	Inputs() map[string]string
}

// BackendNamer is a Learner that names what executes its computations, such as xla:cpu.
type BackendNamer interface {
	Backend() string
}

// MetricsReporter is a Learner that reports its use of the machine.
type MetricsReporter interface {
	// Gauges returns figures by name, such as device_memory_mb in 10⁶ bytes. It does not
	// wait for work in progress.
	Gauges() map[string]float64
}
