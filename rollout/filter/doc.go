// Package filter drops groups of rollouts that would teach nothing.
//
// Rollouts from the same start state form a group. Where all of them earned the
// same, group-relative advantages are zero or rounding noise, and the update is
// left to the regularisers. A filter looks at the returns after a rollout and
// says which rows to keep, and by what factor to scale their advantages.
//
//	name                     type         keeps                                       scale
//	none                     None         everything                                  1
//	reward_variance          TopFraction  a share of the groups, most variance first  1
//	reward_variance_top_k    TopK         so many groups, most variance first         1
//	reward_variance_top_p    TopP         groups until they hold a share of all       sqrt(kept/all)
//	                                      variance
//	reward_variance_min_p    MinP         groups with a share of the largest          1
//	                                      variance or more
//	drop_equal, dapo         DropEqual    groups whose returns are not all equal      1
//
// reward_variance and reward_variance_top_p are those of VAGEN Lite; variance as
// a measure of a group's signal is from RAGEN (arXiv:2504.20073); dropping equal
// groups is the dynamic sampling of DAPO (arXiv:2503.14476), without sampling
// replacements.
//
// Every filter is deterministic. Groups are ranked by falling variance, equal
// ones by first appearance; kept rows stay in their order.
//
// Returns must be finite, and so must their sum over a trajectory: others are an
// ErrNotFinite. A variance that is too large for a float64 is reported as
// math.MaxFloat64; such groups are still ranked by how large it is.
//
// [Registry] builds filters by name from the key=value settings of a
// configuration, and takes users' own.
package filter
