package rules

// podRestartPolicy denies a TTL after finished on a Pod that never finishes.
var podRestartPolicy = Rule{
	Name:   "pod-restart-policy",
	Fields: []string{"spec.restartPolicy"},
	Check: func(s *Subject) {
		if !s.IsPod() || !s.AlwaysRestarts() {
			return
		}
		for _, setting := range s.TTLs().Settings() {
			// One finding is enough, whichever of the annotations is there.
			s.deny("spec.restartPolicy", s.RestartPolicy+" "+setting.Text,
				"a Pod with a TTL cannot have Always (absent means Always), as it never finishes: use OnFailure or Never")
			return
		}
	},
}
