// Package filter drops groups of rollouts without a learning signal.
//
// Rollouts from the same start state form a group. If all of them have the same
// return, group-relative advantages are zero or rounding noise, and only the
// regularisers contribute to the update. A filter uses the returns after a rollout to
// select the rows to keep and the factor for their advantages.
//
//	name                     type         keeps                                       scale
//	none                     None         everything                                  1
//	reward_variance          TopFraction  a share of the groups, most variance first  1
//	reward_variance_top_k    TopK         k groups, most variance first               1
//	reward_variance_top_p    TopP         groups until they have a share of all       sqrt(kept/all)
//	                                      variance
//	reward_variance_min_p    MinP         groups with a share of the largest          1
//	                                      variance or more
//	drop_equal, dapo         DropEqual    groups whose returns are not all equal      1
//
// reward_variance and reward_variance_top_p are those of VAGEN lite; variance as
// a measure of a group's signal is from RAGEN (arXiv:2504.20073); dropping equal
// groups is the dynamic sampling of DAPO (arXiv:2503.14476), without sampling
// replacements.
//
// Every filter is deterministic. Groups are ranked by decreasing variance, equal ones
// by first appearance; kept rows stay in their order.
//
// Returns and their sum over a trajectory must be finite; otherwise the error wraps
// ErrNotFinite. A variance too large for a float64 is reported as math.MaxFloat64;
// such groups are still ranked by their true variance.
//
// [Registry] builds filters by name from the key=value settings of a
// configuration. Users can register their own.
package filter
