// Package evaluation builds evaluations from their configuration: which model behind an API
// or in this process plays which environments, how responses are sampled, and where results
// are written. The command vagen eval uses it:
//
//	plan, err := evaluation.Load("eval.yaml", nil)
//	…
//	model, independent, shut, err := plan.Open(ctx, log)
//	…
//	defer shut()
//	identity, err := plan.Identity(ctx)
//	…
//	report, err := (&evaluate.Evaluation{
//		Dir: plan.Dir(), Model: plan.Backend.Name, Policy: model, Independent: independent, Tasks: plan.Tasks,
//		Identity: identity, Concurrency: plan.Config.Run.Jobs,
//	}).Run(ctx)
//
// Package rollout/evaluate plays the episodes and summarises them.
package evaluation
