package expression

// AsksNamespace reports whether the policy depends on more of an object's namespace than its name.
func (p *Policy) AsksNamespace() bool { return p.asksNamespace }

// ReadsNamespace reports whether an expression of the policy reads the namespace of an object.
func (p *Policy) ReadsNamespace() bool { return p.readsNamespace }

// ReadsRuntime reports whether an expression of the policy reads the runtime of an object.
func (p *Policy) ReadsRuntime() bool { return p.readsRuntime }

// MatchAsksRuntime reports whether the policy's match depends on the runtime of an object.
func (p *Policy) MatchAsksRuntime() bool { return p.matchAsksRuntime }
