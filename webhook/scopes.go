package webhook

// Scopes are those by which the webhooks judge, for who has to come to the same answers.
func (w *Webhooks) Scopes() Scopes { return w.scopes }
