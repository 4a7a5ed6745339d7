fn main() {
    farmhand::warden::dispatch();
}
