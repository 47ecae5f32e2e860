package cleanup

const fieldManager = "curfew-cleanup"
