package train

import (
	"math"

	"vagen/train/config"
)

// rate returns the learning rate of a step (from 1): it increases during the warm-up, then
// stays constant or decreases to MinRatio of its maximum, linearly or as half a cosine.
func rate(o *config.OptimConfig, step, total int) float64 {
	warm := int(o.WarmupRatio*float64(total) + 1e-9) // rounded down, as in verl; 0.07 of 100 is a little more than 7 in binary
	if o.WarmupSteps > 0 {
		warm = o.WarmupSteps
	}
	if step <= warm {
		return o.Rate * float64(step) / float64(warm)
	}
	if o.Style == "constant" || total <= warm {
		return o.Rate
	}
	part := float64(step-warm-1) / float64(max(1, total-warm-1))
	return o.Rate * (o.MinRatio + (1-o.MinRatio)*fall(o.Style, part))
}

// fall decreases from 1 to 0 while part increases from 0 to 1, linearly or as half a cosine.
func fall(style string, part float64) float64 {
	if style == "cosine" {
		return (1 + math.Cos(math.Pi*part)) / 2
	}
	return 1 - part
}

// factor returns the factor of a scheduled number at a step (from 1).
func factor(c *config.ScheduleConfig, step, total int) float64 {
	if c.Style == "constant" || total < 2 {
		return 1
	}
	return c.End + (1-c.End)*fall(c.Style, float64(step-1)/float64(total-1))
}
