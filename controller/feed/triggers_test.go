package feed

import (
	"curfew.dev/curfew/controller/deletion"
	"curfew.dev/curfew/controller/expire"
	"curfew.dev/curfew/policy"
)

// triggers are those that send DELETEs.
func triggers(sender deletion.Sender) []expire.Trigger {
	do := deletion.NewDeleteAction(sender, nil, nil)
	return []expire.Trigger{
		{Name: string(policy.TriggerTTL), Action: do, Deletes: true},
		{Name: string(policy.TriggerLabel), Action: do, Deletes: true},
	}
}
