package feed

import (
	"curfew.dev/curfew/controller/action/deletion"
	"curfew.dev/curfew/controller/engine"
	"curfew.dev/curfew/policy"
)

// triggers are those that send DELETEs.
func triggers(sender deletion.Sender) []engine.Trigger {
	do, err := deletion.New(sender, nil, nil)
	if err != nil {
		panic(err)
	}
	return []engine.Trigger{
		{Name: string(policy.TriggerTTL), Action: do, Deletes: true},
		{Name: string(policy.TriggerLabel), Action: do, Deletes: true},
	}
}
