package vlm

import (
	"vagen/policy/vlm/internal/plan"
)

// Workload describes the work for which a MemoryPlan is made: see its fields. All rows have the same
// length.
type Workload = plan.Workload

// MemoryPlan is an estimate of the peak memory of a workload in bytes: of the process, with
// all of its devices, or of each accelerator.
type MemoryPlan = plan.Memory

// Limits are the speeds that a machine reached with programs that do nothing else.
type Limits = plan.Limits

// Cost is the least work of a step.
type Cost = plan.Cost

// Step is a kind of step on rows of tokens without images.
type Step = plan.Step

// The steps.
const (
	StepTrain   = plan.StepTrain   // forward and backward pass, AdamW
	StepScore   = plan.StepScore   // log-probs of all tokens but the first of a row
	StepPrefill = plan.StepPrefill // read a prompt and sample a token
	StepDecode  = plan.StepDecode  // sample one token for each row
)
