// Package mask records who wrote which token of a training row, and derives
// from that record every mask that training needs.
//
// A row is a conversation: context that the model read (system prompt, observations,
// template tokens) and responses that the model wrote. Finding the responses afterwards
// by special tokens in the text is fragile: truncation drops such marks, retokenisation
// moves them. A [Sequence] is filled while the tokens are produced, and stores each
// token with its kind, its turn and its spans. All masks are derived from it, so their
// length is always that of the sequence.
//
//	var s mask.Sequence
//	s.AppendContext(mask.Prompt, prompt...)        // system prompt, first observation
//	s.AppendResponse(reply...)                     // one turn; its last token is the turn end
//	s.AppendContext(mask.Observation, answer...)   // what the environment said
//	s.AppendResponse(reply2...)
//	loss = s.Loss(loss[:0], mask.Options{})
//
// The masks, one entry per token:
//
//	Response    written by the model
//	Loss        Response but for forced tokens, or every token when the loss mask is off
//	Advantage   Response, or every token when the advantage (GAE) mask is off
//	TurnEnd     last token of each turn, where turn rewards are placed
//	Value       positions that train the critic
//	Attention   every token: rows are ragged, without padding
//	Span        tokens of the spans with one name, for credit per span
//
// All functions append to the given slice and do not allocate if its capacity
// suffices, so rows can be concatenated in one flat array.
//
// Loss mask and advantage mask are derived from the same response mask by two separate
// switches, following VAGEN (arXiv:2510.16907): the first selects the tokens that train
// the policy, the second the tokens that are steps of the advantage recursion.
package mask
